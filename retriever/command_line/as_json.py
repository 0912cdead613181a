"""Every command's result as one JSON object on standard output."""

import json
import sys
from typing import Any

from retriever.command_line.terminal import is_unicode
from retriever.display.json import SCHEMA_VERSION


def write_json(content: dict[str, Any]) -> None:
    """One object and a newline on standard output."""
    sys.stdout.write(f"{json_line({'schema_version': SCHEMA_VERSION, **content})}\n")


def json_line(content: dict[str, Any]) -> str:
    """The object as text that standard output can hold: other characters than ASCII stay as they are where they can.

    A file name that is not UTF-8 holds lone surrogates, which only an escape can carry.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False)
    return text if is_unicode(sys.stdout) else json.dumps(content, allow_nan=False)
