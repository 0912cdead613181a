"""Folders to an index that is up to date: what changed, its chunks and vectors, and a snapshot that searches read."""
