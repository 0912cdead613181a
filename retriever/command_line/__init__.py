"""The command line, one module for each command or concern; `hybrid_retrieve.py` puts them together.

Nothing heavier than click and YAML is imported before a command runs, so that `--help` answers at once.
"""
