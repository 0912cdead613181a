"""What a language model is asked to write, and how its answer is read.

The documents' texts are given to it as data: JSON, one object a line, between two lines that hold a nonce. No text
inside can end this fence: it does not know the nonce, it cannot begin a line, and its `<` are escaped.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from retriever.errors import WrongAnswerError

ENDLESS_CHARS, ENDLESS_TIMES, ENDLESS_PERIOD = 60, 6, 120  # of a tail that repeats, and of what it repeats

Written = TypeVar("Written", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Task(Generic[Written]):
    """One JSON object that a language model is to write."""

    instructions: str  # what to do, in words of this program alone: nothing of a document or a question stands here
    material: str  # what to do it with: the question, and pieces of documents as data
    # The shape of the object; the model is given its JSON schema, and its answer is checked against it.
    answer: type[Written]
    max_tokens: int  # the most that is written
    temperature: float = 0.0  # 0: the likeliest words; the same task then gives the same object from most models
    seconds: float | None = None  # the longest wait, where it is less than the generator's own
    on_text: Callable[[str], None] | None = None  # given all that is written so far, whenever there is more
    example: str = ""  # of an answer, as JSON; shown where no schema is sent: beside one it makes models loop
    keeps_cut: bool = True  # whether what is whole of an answer that was cut off is an answer


def new_nonce() -> str:
    """Return 16 hex digits that no document can know."""
    return secrets.token_hex(8)


def json_line(content: Mapping[str, object]) -> str:
    """Return the content as one line of JSON. Lone surrogates, which no request can carry, are replaced."""
    text = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    for end in ("\u2028", "\u2029", "\x85"):  # to some readers they end a line; JSON does not escape them
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


def fence_lines(lines: Iterable[str], nonce: str) -> str:
    return "\n".join([f"<data {nonce}>", *lines, f"</data {nonce}>"])


def read_answer(text: str, kind: type[Written], *, is_cut: bool = False) -> Written:
    """Return the first JSON object of a text, as the type that was asked for; of a cut text what is whole.

    Raises:
        WrongAnswerError: says what is wrong.
    """
    # Models think aloud, put code fences around an object, and talk before and after it.
    found = find_object(drop_thoughts(text))
    if found is None and is_cut and (whole := _read_whole_parts(drop_thoughts(text), kind)):
        return whole
    if found is None:
        raise WrongAnswerError("no JSON object" if text.strip() else "nothing")
    try:
        return kind.model_validate_json(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the object"
        raise WrongAnswerError(f"a wrong shape ({place}: {first['msg']})") from error


def _read_whole_parts(text: str, kind: type[Written]) -> Written | None:
    """Return what a text says that ends in the middle of an object; None where nothing is whole."""
    try:
        # Texts that are not closed are left out by the parser; of a number nobody could tell.
        content = from_json(re.sub(r"[-+.\deE]+$", "", text[text.find("{") :]), allow_partial=True)
    except ValueError:
        return None
    while isinstance(content, dict) and any(content.values()):
        try:
            return kind.model_validate_json(json.dumps(content))
        except ValidationError as error:
            place = error.errors()[0]["loc"]
            items = content.get(str(place[0])) if place else None
            if not isinstance(items, list) or not items or place[1:2] != (len(items) - 1,):
                return None
            items.pop()  # the last one has begun alone
    return None


def is_endless(text: str) -> bool:
    """Return whether a text has come to say the same again and again, or nothing: 60 blanks, or a repeated tail.

    >>> is_endless('{"n": [1, 2' + "7" * 60), is_endless("one, two, three, " * 2)
    (True, False)
    """
    if len(text) < ENDLESS_CHARS:
        return False
    if text[-ENDLESS_CHARS:].isspace():
        return True
    # A tail repeats with a period where it equals itself, moved by that many characters.
    tails = ((period, max(ENDLESS_CHARS, ENDLESS_TIMES * period)) for period in range(1, ENDLESS_PERIOD + 1))
    return any(len(text) >= length and text[-length + period :] == text[-length:-period] for period, length in tails)


def drop_thoughts(text: str) -> str:
    """Return the text behind the thinking; some templates leave out the tag that opens it, some never close it."""
    text = re.sub(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", "", text, flags=re.DOTALL | re.IGNORECASE)
    return re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)[-1]


def find_object(text: str) -> str | None:
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(8):  # each brace costs a look through the rest of the text
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return text[start:end]
    return None
