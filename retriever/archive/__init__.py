"""An index as one file: written, and read with suspicion."""
