"""How what is found is shown, wherever it is shown: inert, marked, linked, as JSON."""
