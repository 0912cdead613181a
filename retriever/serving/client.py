"""Ask an index that another process keeps open: a running `serve --web`, over its HTTP API.

The standard library is enough for one request, and is loaded in a fifth of the time of httpx.
"""

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

from retriever.display.json import SCHEMA_VERSION, load
from retriever.errors import NotReadyError, QuestionError, ServingError, UsageError
from retriever.query import AskRequest
from retriever.served.address import is_this_machine, server_url
from retriever.types import Answer

MAX_ANSWER_BYTES = 64_000_000
ANSWER_SECONDS = 160.0  # the server gives up after 150


def ask_server(address: str, request: AskRequest, token: str = "", profile: str = "") -> Answer:
    """Return the answer of a server, from its index; with its own profile, unless one is named.

    Raises:
        UsageError: it is no address, or that of another machine and there is no token.
        ServingError: no server of this version answers, or it refuses the token.
        QuestionError: it refuses the question, a filter or the profile.
        NotReadyError: it cannot answer yet, or not now.
    """
    try:
        url = server_url(address)
    except ValueError as error:
        raise UsageError(f"--server: {error}") from error
    if not token and not is_this_machine(url):
        raise UsageError(f"{url} is another machine, whose server wants a token: add --token-file FILE")
    scope = request.scope
    given = {
        "question": request.question,
        "profile": profile,
        "after": request.conversation,
        "in": scope.folders,
        "tag": scope.tags,
        "since": scope.since,
        "until": scope.until,
        "where": scope.where,
        **dict.fromkeys(("full", "explain"), "true"),  # all that an answer has: its page shows rows of the text
    }
    query = urlencode({key: value for key, value in given.items() if value}, doseq=True, errors="surrogateescape")
    status, content = get_json(url, f"/api/search?{query}", token)
    message = str(content.get("error") or f"it answered with status {status}")
    match status:
        case http.HTTPStatus.UNAUTHORIZED:
            raise ServingError(f"the server at {url} wants another token: --token-file FILE, as `serve` has")
        case http.HTTPStatus.SERVICE_UNAVAILABLE:
            raise NotReadyError(f"the server at {url} cannot answer now: {message}")
        case http.HTTPStatus.NOT_FOUND | http.HTTPStatus.UNPROCESSABLE_ENTITY if content:
            raise QuestionError(message)
    if content.get("schema_version") != SCHEMA_VERSION:
        raise ServingError(f"what answers at {url} is no `serve --web` of this version: {message}")
    answer: Answer = load(Answer, content)
    return answer


def get_json(url: str, target: str, token: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of an answer, empty where it is none; ServingError without an answer."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with closing(kind(parts.netloc, timeout=ANSWER_SECONDS)) as connection:
            connection.request("GET", parts.path + target, headers=headers)
            response = connection.getresponse()
            body = response.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise ServingError(f"no server answers at {url} ({error}); start one: serve --web") from error
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    return response.status, content if isinstance(content, dict) else {}
