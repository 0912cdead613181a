"""Texts of documents, file names and language models in a terminal: no byte of them steers it."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from retriever.api import index_folders
from tests.program import command, environment, in_terminal, slow
from tests.real.scripted_server import Asked, scripted_server

# Colours, cursor, title, link, clipboard, palette, notification, DCS, APC, PM, reports, reset, character sets, modes;
# 8-bit controls, bells, backspaces; characters that reverse, hide or break text.
LINE = (
    "\x1b[38;5;201mcolour \x1b[2J\x1b[H \x1b[1A\x1b[2K \x1b]0;owned\x07 \x1b]2;owned\x1b\\ "
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\ \x1b]52;c;cm0gLXJmIC8=\x07 \x1b]4;1;#ffffff\x07 "
    "\x1b]9;owned\x07 \x1bPq#0;2;0;0;0#0~\x1b\\ \x1b_Gf=100;AAAA\x1b\\ \x1b^secret\x1b\\ \x1b[6n\x1b[c \x05 \x1bc "
    "\x1b(0lqqk\x0e \x1b[?1049h\x1b[?25l \x9b31mred \x9d0;owned\x9c a\x85b \x07 safe\x08\x08\x08\x08evil \x7f "
    "a\x0bb\x0cc \u202egnp.exe\u202c \u2066\u2067\u2069 \u200e\u200f\u061c a\u200bb\ufeffc\u2060d a\u2028b\u2029c "
    "\U000e0041\U000e007f"
)
NAME = f"zebra {LINE[:60]}.md".replace("/", "")
PAGE = f"""---
title: "Front {json.dumps(LINE)[1:-1]}"
tags: ["{json.dumps(LINE[:80])[1:-1]}"]
---
# Zebra {LINE}

A zebra is a striped animal. {LINE}

## Food {LINE}

It eats grass. {LINE}
"""
OUR_OWN = re.compile(r"\x1b\[(?:0|1|2|1;33|1;36|0?;?[0-9;]{0,5})m|\x1b\[\?25[lh]|\x1b\[[12]?K|\x1b\[1?A|\r")
"""Colours, and what a progress line is drawn with."""
HIDES = re.compile("[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]")
OF_THE_PAYLOADS = re.compile(r"\x1b\[38;5;201m|\x1b\[2J|\x1b\[6n|\x1b\[\?10|\x1b\]|\x1bP|\x1b_|\x1b\^|\x1bc|\x1b\(")
QUESTION = f"what does the zebra eat? {LINE[:300]}"


@dataclass(frozen=True)
class Place:
    folder: Path
    environment: dict[str, str]

    def check(self, *arguments: str, codes: Sequence[int] = (0,), **variables: str) -> str:
        """Run a command in a terminal: what it shows holds no control character but our own, and hides nothing."""
        status, output = in_terminal(command(*arguments), self.folder, self.environment | variables)
        text = output.decode("utf-8")
        assert status in codes, text
        assert OF_THE_PAYLOADS.search(text) is None
        shown = OUR_OWN.sub("", text)
        assert {sign for sign in shown if unicodedata.category(sign) == "Cc"} <= {"\n", "\t"}
        assert HIDES.search(shown) is None
        assert "\ufffd" in shown or "\\x1b" in shown
        return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "docs").mkdir()
    (folder / "docs" / NAME).write_text(PAGE, encoding="utf-8")
    (folder / "docs" / "broken.md").write_text(f"---\na: '{LINE}\n---\n# Broken\n\ntext\n", encoding="utf-8")
    (folder / "docs" / f"{LINE[:40]}.md".replace("/", "")).write_bytes(b"a\0b")
    index_folders([folder / "docs"], folder / "index")
    return Place(folder, environment(HOME=str(folder), XDG_DATA_HOME=str(folder / "data"), TERM="xterm-256color"))


@pytest.mark.parametrize(
    "arguments",
    [[QUESTION, "--full", "--explain"], ["--context", "zebra grass"], *slow([["tree"], ["read", NAME], ["status"]])],
    ids=lambda arguments: next((word for word in arguments if word.isalpha()), "ask"),
)
def test_every_page_is_inert(place: Place, arguments: Sequence[str]) -> None:
    place.check(*arguments, "--index", "index")


def test_an_error_is_inert(place: Place) -> None:
    assert "error: " in place.check("read", LINE, "--index", "index", codes=(2,))


@pytest.mark.slow
def test_what_a_language_model_writes_is_inert(place: Place) -> None:
    def answer(asked: Asked) -> object:
        texts = [f"The striped zebra eats grass {LINE[:150]} all day.", f"Grass {LINE[150:300]} feeds the zebra."]
        # Not more than a model may write.
        return {"queries": texts, "hyde": texts[:1], "hyde_answer": "", "intent": "APPLICATION", "entities": ["zebra"]}

    with scripted_server(answer) as ollama:
        wishes = ["--index", "index", "--profile", "full", "--hyde", "always", "--rerank-kind", "none", "--explain"]
        question = "what does the striped animal like to eat all day long?"
        text = place.check(question, *wishes, OLLAMA_HOST=ollama.url)
        assert ollama.asked != []
    assert "eats grass" in text
