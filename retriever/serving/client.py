"""Ask an index that another process keeps open: a running `serve --web`, over its HTTP API.

The standard library is enough for one request, and is loaded in a fifth of the time of httpx.
"""

import http.client
import json
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from pageindex.corpus import read_file
from retriever.display.json import SCHEMA_VERSION, load
from retriever.errors import NotReadyError, QuestionError, ServingError, UsageError
from retriever.query import AskRequest
from retriever.served.address import is_this_machine, server_url
from retriever.types import Answer

MAX_ANSWER_BYTES = 64_000_000
MIN_TOKEN_LENGTH = 16
MAX_TOKEN_BYTES = 10_000
ANSWER_SECONDS = 160.0  # the server gives up after 150


def read_token(path: Path) -> str:
    """Return the bearer token in a file; UsageError where it holds none."""
    try:
        token = read_file(path, MAX_TOKEN_BYTES, follow_link=True).decode("utf-8", "replace").strip()
    except OSError as error:
        raise UsageError(f"--token-file {path} cannot be read: {error.strerror or error}") from error
    if len(token) < MIN_TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"{path} holds no token: one line of at least {MIN_TOKEN_LENGTH} ASCII characters, no spaces")
    return token


class ServerClient:
    """Searches as a `Retriever` does; the index and its settings are the server's."""

    def __init__(self, url: str, token: str = "", profile: str = "", *, full: bool = False) -> None:
        """Check the address; UsageError where it is none, or is another machine's and there is no token.

        Args:
            url: of the server, without a path.
            token: the bearer token that it wants; empty: none.
            profile: to answer with; empty: the server's own.
            full: whether hits have their sections' texts.
        """
        try:
            self.url = server_url(url)
        except ValueError as error:
            raise UsageError(f"--server: {error}") from error
        if not token and not is_this_machine(self.url):
            raise UsageError(f"{self.url} is another machine, whose server wants a token: add --token-file FILE")
        self._token = token
        self._profile = profile
        self._full = full

    def search(self, request: AskRequest) -> Answer:
        """Return the answer of the server.

        Raises:
            ServingError: no server of this version answers, or it refuses the token.
            QuestionError: it refuses the question, a filter or the profile.
            NotReadyError: it cannot answer yet, or not now.
        """
        scope = request.scope
        given = {
            "question": request.question,
            "profile": self._profile,
            "after": request.conversation,
            "in": scope.folders,
            "tag": scope.tags,
            "since": scope.since,
            "until": scope.until,
            "where": scope.where,
            "full": "true" if self._full else "",
            "explain": "true",  # all that a page of text may show
        }
        query = urlencode({key: value for key, value in given.items() if value}, doseq=True, errors="surrogateescape")
        status, content = self._get(f"/api/search?{query}")
        message = str(content.get("error") or f"it answered with status {status}")
        match status:
            case http.HTTPStatus.UNAUTHORIZED:
                raise ServingError(f"the server at {self.url} wants another token: --token-file FILE, as `serve` has")
            case http.HTTPStatus.SERVICE_UNAVAILABLE:
                raise NotReadyError(f"the server at {self.url} cannot answer now: {message}")
            case http.HTTPStatus.NOT_FOUND | http.HTTPStatus.UNPROCESSABLE_ENTITY if content:
                raise QuestionError(message)
        if content.get("schema_version") != SCHEMA_VERSION:
            raise ServingError(f"what answers at {self.url} is no `serve --web` of this version: {message}")
        answer: Answer = load(Answer, content)
        return answer

    def context(self, _: AskRequest) -> NoReturn:
        """Raise UsageError: the server has no such address."""
        raise UsageError("--context is made where the index is open; leave out --server")

    def _get(self, target: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer, empty where it is none."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.netloc, timeout=ANSWER_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request("GET", parts.path + target, headers=headers)
            response = connection.getresponse()
            body = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise ServingError(f"no server answers at {self.url} ({error}); start one: serve --web") from error
        finally:
            connection.close()
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        return response.status, content if isinstance(content, dict) else {}
