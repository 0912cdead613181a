"""A real index of a few pages for command lines: notes what they open, and can return given results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import retriever.api
from retriever.query import AskRequest
from retriever.retriever import Retriever
from retriever.types import Answer
from tests.shelf import WORDS_ALONE

PAGES = {
    "guide/mail.md": "# Mail\n\n## After the response\n\nSend an email after the response has gone out.\n",
    "odd.md": "# \x1b]0;title\x07 of it\n\na\tb\x1b[31m\u202ec\n",
    "bad.md": "\0",
}


@dataclass
class Sample:
    docs: Path
    index: Path
    answers: Sequence[Answer] = ()
    """Given in turn, the last one again and again; empty: what is found."""
    error: BaseException | None = None
    """Raised by whatever is called."""
    opened: list[dict[str, Any]] = field(default_factory=list)
    """The documents, index, profile and settings of each call; the real one is of the sample, by words alone."""
    asked: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, docs in (("open_retriever", ()), ("index_folders", (self.docs,))):
            monkeypatch.setattr(retriever.api, name, self._noted(getattr(retriever.api, name), docs))
        search = Retriever.search

        def find(opened: Retriever, question: AskRequest | str, *more: Any, **named: Any) -> Answer:  # noqa: ANN401 - passed on
            self.asked.append(AskRequest.of(question).question)
            if not self.answers:
                return search(opened, question, *more, **named)
            return self.answers[min(len(self.asked), len(self.answers)) - 1]

        monkeypatch.setattr(Retriever, "search", find)

    def _noted(self, original: Callable[..., object], docs: Sequence[Path]) -> Callable[..., object]:
        def call(*positional: object, **named: object) -> object:
            given = signature(original).bind(*positional, **named)
            given.apply_defaults()
            self.opened.append({name: given.arguments[name] for name in ("docs", "index", "profile", "settings")})
            if self.error is not None:
                raise self.error
            return original(docs, self.index, settings={**WORDS_ALONE, "answer": {"kind": "extractive"}})

        return call
