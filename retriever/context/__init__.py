"""An answer's sections as context for a prompt.

gather    hits -> whole sections, with those that complete a family
budget    which of their lines fit, and the page of Markdown that quotes them
"""
