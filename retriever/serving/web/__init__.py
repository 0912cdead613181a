"""The web page and the JSON API over a library: rendered here, with nothing loaded from elsewhere."""
