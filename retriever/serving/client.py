"""Ask an index that another process keeps open: a running `serve --web`, over its HTTP API.

The standard library is enough for one request, and is loaded in a fifth of the time of httpx.
"""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from socket import SHUT_RDWR
from threading import Timer
from urllib.parse import urlencode, urlsplit

from retriever.display.json import SCHEMA_VERSION, load
from retriever.errors import QuestionError, ServingError
from retriever.query import AskRequest
from retriever.served.address import server_url
from retriever.text import cut
from retriever.types import Answer

ANSWER_SECONDS = 160.0  # the server gives up after 150
MAX_BYTES = 16 * 2**20  # an answer with the texts of a thousand sections has less
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
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    failure = f"no `serve --web` of this version answers at {url}"
    try:
        status, reply = fetch(f"{url}/api/search?{query}", headers)
        content = json.loads(reply)
        if status == 200 and content["schema_version"] == SCHEMA_VERSION:
            answer: Answer = load(Answer, content)
            return answer
    # The last three for the page of a proxy, and for what only looks like an answer.
    except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError, RecursionError) as error:
        raise ServingError(f"{failure} ({cut(str(error), MAX_MESSAGE)}); start one") from error
    match status, content:
        case 404 | 422, {"error": str(message)}:
            raise QuestionError(cut(message, MAX_MESSAGE))
        case _, {"error": str(message)}:
            raise ServingError(f"the server at {url} cannot answer: {cut(message, MAX_MESSAGE)}")
    raise ServingError(f"{failure} (status {status}); start one")


def fetch(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Return the status and the body of a reply, which is complete in ANSWER_SECONDS and has at most MAX_BYTES.

    Raises:
        OSError: there is none in this time.
        HTTPException: what comes is none.
        ValueError: it is larger.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with closing(kind(parts.netloc, timeout=ANSWER_SECONDS)) as connection:
        connection.connect()
        # The connection's own timeout is of each read alone.
        limit = Timer(ANSWER_SECONDS, connection.sock.shutdown, [SHUT_RDWR])
        limit.start()
        try:
            connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
            response = connection.getresponse()
            body = bytearray()
            while part := response.read1(MAX_BYTES):  # `read` takes all that comes after a chunk of the length -1
                body += part
                if len(body) > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES:,} bytes")
            return response.status, bytes(body)
        finally:
            if not limit.is_alive():
                raise TimeoutError(f"not complete after {ANSWER_SECONDS:g} s")
            limit.cancel()
