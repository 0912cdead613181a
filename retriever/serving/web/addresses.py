"""The addresses of this page's own views. Pure."""

from urllib.parse import quote, urlencode


def address(path: str, **parameters: str | int | None) -> str:
    """The path with those parameters that are given; a name that is not UTF-8 is encoded byte by byte."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape', quote_via=quote)}" if given else path
