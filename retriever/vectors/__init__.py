"""Nearest chunks of a question's vector: ChromaDB, and the exact scan that stands in for it."""
