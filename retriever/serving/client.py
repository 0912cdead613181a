"""Ask an index that another process keeps open: a running `serve --web`, over its HTTP API.

The standard library is enough for one request, and is loaded in a fifth of the time of httpx.
"""

import http.client
import json
from contextlib import closing
from urllib.parse import urlencode, urlsplit

from retriever.display.json import SCHEMA_VERSION, load
from retriever.errors import QuestionError, ServingError
from retriever.query import AskRequest
from retriever.served.address import server_url
from retriever.types import Answer

ANSWER_SECONDS = 160.0  # the server gives up after 150


def ask_server(address: str, request: AskRequest, token: str = "", profile: str = "") -> Answer:
    """Return the answer of a server, from its index; with its own profile, unless one is named.

    Raises:
        UsageError: the address is none.
        ServingError: no server of this version answers, or it cannot answer now, or refuses the token.
        QuestionError: it refuses the question, a filter or the profile.
    """
    url, scope = server_url(address), request.scope
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
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with closing(kind(parts.netloc, timeout=ANSWER_SECONDS)) as connection:
            connection.request("GET", f"{parts.path}/api/search?{query}", headers=headers)
            response = connection.getresponse()
            content = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:  # the last for the page of a proxy
        raise ServingError(f"no `serve --web` of this version answers at {url} ({error}); start one") from error
    match response.status, content:
        case 200, {"schema_version": version} if version == SCHEMA_VERSION:
            answer: Answer = load(Answer, content)
            return answer
        case 404 | 422, {"error": message}:
            raise QuestionError(message)
        case _, {"error": message}:
            raise ServingError(f"the server at {url} cannot answer: {message}")
    raise ServingError(f"no `serve --web` of this version answers at {url} (status {response.status}); start one")
