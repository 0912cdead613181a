"""A question in other words: what a language model makes of it, and when that is not used.

In the order of the flow: `exact` and `gate` (before the model is asked), `grounding` and `prompt` (what it is asked),
`cache`, `screening` and `relatedness` (what of its answer is used), `queries` (what is searched with), `metrics`.
The stage itself is retriever/expansion/expand_query.py.
"""
