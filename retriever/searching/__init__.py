"""A question to hits, stage by stage: what is searched with, the rankings, their fusion, the hits."""
