"""The JSON object in what a model wrote: models think aloud, put fences around it, and talk before and after."""

import json
import re

from pydantic import ValidationError

from retriever.errors import WrongAnswerError
from retriever.llm.generator import Written

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_PLACES = 8
"""So many braces may come before the object's own: each costs a look through the rest of the text."""


def read_answer(text: str, kind: type[Written]) -> Written:
    """The first JSON object of a text, as the type that was asked for.

    Raises:
        WrongAnswerError: there is none, or it is of another shape; the message says what is wrong with it.
    """
    found = first_object(without_thoughts(text))
    if found is None:
        raise WrongAnswerError("no JSON object" if text.strip() else "nothing")
    try:
        return kind.model_validate_json(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the object"
        raise WrongAnswerError(f"a wrong shape ({place}: {first['msg']})") from error


def without_thoughts(text: str) -> str:
    """What follows the thinking; some models' templates leave out the tag that opens it, some never close it."""
    text = _THOUGHTS.sub("", text)
    return _END_OF_THOUGHTS.split(text)[-1]


def first_object(text: str) -> str | None:
    """The first part of a text that is a JSON object."""
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(_PLACES):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return text[start:end]
    return None
