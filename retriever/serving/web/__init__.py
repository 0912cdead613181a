"""The web page and the JSON API over a library: rendered here, with nothing loaded from elsewhere."""

from retriever.serving.web.app import make_web_app

__all__ = ["make_web_app"]
