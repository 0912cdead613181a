"""The health of an index: the doctor, and the repair."""
