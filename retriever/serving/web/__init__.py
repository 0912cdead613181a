"""The web page and the JSON API over a library: rendered here, with nothing loaded from elsewhere."""

from retriever.serving.web.app import web_app

__all__ = ["web_app"]
