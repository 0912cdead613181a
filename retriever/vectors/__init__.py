"""Nearest chunks of a question's vector: ChromaDB, and the exact scan that stands in for it."""

from retriever.vectors.chroma import VectorIndex, build_vectors, patch_vectors
from retriever.vectors.exact import ChunkVectors, ExactIndex, Neighbours, VectorSearch, uses_chroma

__all__ = [
    "ChunkVectors",
    "ExactIndex",
    "Neighbours",
    "VectorIndex",
    "VectorSearch",
    "build_vectors",
    "patch_vectors",
    "uses_chroma",
]
