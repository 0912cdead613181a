"""Nearest chunks of a question's vector: an exact scan, one of signs where there are very many, and ChromaDB."""
