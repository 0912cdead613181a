"""Markdown documents as one tree of folders, files and sections: the PageIndex.

No models, no network, no settings files: text in, nodes with line spans out.
"""
