"""The rows of an index: what they are, by statements that each engine reads."""
