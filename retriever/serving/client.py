"""Ask an index that another process keeps open: a running `serve --web`, over its HTTP API."""

import json
import time
from urllib.parse import urlencode

from retriever.display.json import SCHEMA_VERSION, load
from retriever.errors import QuestionError, ServingError
from retriever.query import AskRequest
from retriever.served.address import server_url
from retriever.served.transport import Limits, ServedError, open_reply
from retriever.text import cut
from retriever.types import Answer

ANSWER_SECONDS = 160.0  # the server gives up after 150
MAX_MESSAGE = 2_000  # characters of what a server says


def ask_server(address: str, request: AskRequest, token: str = "", profile: str = "") -> Answer:
    """Return the answer of a server, from its index; with its own profile, unless one is named.

    Raises:
        UsageError: the address is none.
        ServingError: no server of this version answers, or it cannot answer now, or refuses the token, or what it sends
            is no answer, too large or not complete in time.
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
    limits = Limits(time.monotonic() + ANSWER_SECONDS, ANSWER_SECONDS)
    failure = f"no `serve --web` of this version answers at {url}"
    try:
        with open_reply(f"{url}/api/search?{query}", limits, key=token) as (status, parts):
            content = json.loads(b"".join(parts))
        if status == 200 and content["schema_version"] == SCHEMA_VERSION:
            answer: Answer = load(Answer, content)
            return answer
    # All but the first for the page of a proxy, and for what only looks like an answer.
    except (ServedError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise ServingError(f"{failure} ({cut(str(error), MAX_MESSAGE)}); start one") from error
    match status, content:
        case 404 | 422, {"error": str(message)}:
            raise QuestionError(cut(message, MAX_MESSAGE))
        case _, {"error": str(message)}:
            raise ServingError(f"the server at {url} cannot answer: {cut(message, MAX_MESSAGE)}")
    raise ServingError(f"{failure} (status {status}); start one")
