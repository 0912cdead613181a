"""index.sqlite, the one place of truth: everything else in an index is derived from it."""
