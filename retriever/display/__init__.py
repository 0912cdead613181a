"""How what is found is shown, wherever it is shown: sanitized, in words, with links to editors, as JSON."""
