"""Nearest chunks of a question's vector: ChromaDB, and the exact scan that stands in for it.

exact.py      what goes in (`ChunkVectors`), what a search is (`VectorSearch`), and the exact scan
index.py      the search by ChromaDB: build, patch, open, verify
chroma.py     how ChromaDB is imported and opened so that nothing but us configures it     (the only `import chromadb`)
inventory.py  what tells a whole folder from a damaged one; how a folder is copied
"""

from retriever.vectors.chroma import VectorIndex, build_vectors, patch_vectors
from retriever.vectors.exact import ChunkVectors, ExactIndex, Neighbours, VectorSearch

__all__ = [
    "ChunkVectors",
    "ExactIndex",
    "Neighbours",
    "VectorIndex",
    "VectorSearch",
    "build_vectors",
    "patch_vectors",
]
