"""Folders to an index that is up to date: what changed, its words, chunks and vectors."""
