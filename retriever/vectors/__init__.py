"""Nearest chunks of a question's vector: an exact scan, and ChromaDB."""
