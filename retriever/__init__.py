"""Questions to hits: chunks, vectors, BM25, the tree's neighbours, fusion."""
