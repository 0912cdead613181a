"""The one place where Ollama's client is used: which server, and what goes wrong there, in words of our own.

OLLAMA_API_KEY and the proxies of the environment are never used, and no redirect is followed.
"""

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from retriever.llm.transport import Patience, client_options, is_this_machine, server_url

if TYPE_CHECKING:
    from ollama import Client

DEFAULT_URL = "http://127.0.0.1:11434"
_PORT = 11434


class RefusedError(Exception):
    """The server says no.

    Attributes:
        status: of HTTP; -1 when it said so in the middle of an answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StrangeAnswerError(Exception):
    """What the server says is nothing that Ollama says."""


@contextmanager
def ollama_client(url: str, patience: Patience) -> "Iterator[Client]":
    """A client for one try; its connections are closed at the end, also by an interrupt.

    Raises:
        httpx.HTTPError: there is no connection, or it broke; OverdueError and AnswerTooLargeError among them.
        RefusedError: the server says no.
        StrangeAnswerError: it is no Ollama.
    """
    import ollama  # 335 ms

    try:
        with ollama.Client(url, event_hooks=_WITHOUT_KEY, **client_options(patience, url)) as client:
            yield client
    except ConnectionError as error:  # the client's own, which hides the reason
        raise httpx.ConnectError(f"no connection to {url}") from error
    except ollama.ResponseError as error:
        raise RefusedError(error.status_code, str(error.error)) from error
    # Lists where objects belong make the client look for attributes, and deep ones exhaust its JSON parser.
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StrangeAnswerError(str(error)) from error


def ollama_url(setting: str, *, allow_remote: bool) -> str:
    """The server to ask: the one of the setting, else of OLLAMA_HOST, else the usual one on this machine.

    Raises:
        ValueError: the address is none, holds a password, or is another machine without leave.
    """
    url = _completed(setting or os.environ.get("OLLAMA_HOST", "")) or DEFAULT_URL
    url = server_url(url)
    if not allow_remote and not is_this_machine(url):
        raise ValueError(f"{url} is another machine, which would read questions and documents: set llm.allow_remote")
    return url


def _completed(address: str) -> str:
    """OLLAMA_HOST as Ollama reads it: scheme, host and port may be missing, and 0.0.0.0 is where it listens.

    What cannot be read is given back, to be refused as it is.
    """
    address = address.strip().strip("\"'").strip()
    scheme, _, rest = address.rpartition("://")
    try:
        parts = urlsplit(f"{scheme or 'http'}://{f'[{rest}]' if _is_ipv6(rest) else rest}")
        port = parts.port
    except ValueError:
        return address
    if not address or parts.username is not None:
        return address
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname or "", parts.hostname)
    host = f"[{host}]" if ":" in f"{host}" else host
    number = port if port is not None else {"http": 80, "https": 443}.get(scheme, _PORT)
    return f"{parts.scheme}://{host}:{number}{parts.path}"


def _is_ipv6(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).version == 6
    except ValueError:
        return False


def _drop_key(request: httpx.Request) -> None:
    """The client adds the OLLAMA_API_KEY of the environment to requests to any host."""
    request.headers.pop("authorization", None)


_WITHOUT_KEY = {"request": [_drop_key]}
