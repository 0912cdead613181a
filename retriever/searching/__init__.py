"""A question to hits: the two arms, the sections of what they found, the tree around them, one ranking."""
