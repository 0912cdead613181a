"""Questions that the documents answer, for the page without a question: made of their own headings. Pure.

A heading that asks is a question already. `Declare a header` is asked as `How do I declare a header?`, and a section
that begins `A catalog is ...` as `What is a catalog?`. Only English headings are turned; those that ask may be of any
language.
"""

import re
from collections.abc import Iterable

MAX_READ = 20_000  # headings that a question is looked for in
BEGINNINGS = (
    "SELECT nodes.title, summary, document_key FROM nodes JOIN documents USING (document_key)"
    " WHERE kind = 'section' AND boilerplate < .5 ORDER BY node_key LIMIT ?"
)
"""Reads the sections that `suggest_questions` takes from an index."""
MAX_EXAMPLES = 6
MAX_CHARS = 70

_ASKS = re.compile(r"(how|what|why|when|where) (is|are|do|does|can|should|to|use) .+", re.IGNORECASE)
_POINTS = re.compile(r"\b(it|this|that|these|they|them|here|above|below)\b", re.IGNORECASE)
_HOW_TO = re.compile(r"how to (.+)", re.IGNORECASE)
# Verbs that headings of instructions begin with: only these, for `Set theory` is none.
_VERBS = {
    "add", "allow", "avoid", "build", "change", "check", "choose", "configure", "connect", "convert", "create",
    "customize", "debug", "declare", "define", "deploy", "disable", "enable", "find", "generate", "handle", "import",
    "install", "migrate", "move", "override", "publish", "read", "remove", "replace", "restart", "return", "run",
    "send", "share", "start", "stop", "test", "update", "upgrade", "use", "verify", "write",
}  # fmt: skip
_DEFINED = re.compile(
    r"((?:an? |the )?)([A-Za-z][\w-]*(?: [a-z][\w-]*){0,2}) (is|are) (?:an? |the |used )", re.IGNORECASE
)


def suggest_questions(sections: Iterable[tuple[str, str, object]]) -> tuple[str, ...]:
    """Return at most MAX_EXAMPLES questions, of each document one; those that headings ask first.

    Args:
        sections: (title, first sentences, document) of each section.
    """
    found: dict[int, dict[object, str]] = {0: {}, 1: {}, 2: {}}
    for title, begins, document in sections:
        kind, question = make_question(" ".join(title.split()).rstrip(" ."), begins)
        if question and len(question) <= MAX_CHARS:
            found[kind].setdefault(document, question)
    chosen: dict[object, str] = {}
    for by_document in found.values():
        # Of many, those that lie apart: neighbours ask of one thing.
        questions = list(by_document.items())
        for document, question in questions[:: max(1, len(questions) // MAX_EXAMPLES)]:
            if question not in chosen.values():
                chosen.setdefault(document, question)
    return tuple(chosen.values())[:MAX_EXAMPLES]


def make_question(title: str, begins: str) -> tuple[int, str]:
    """Return the question of a heading and its kind: 0 asked, 1 how to, 2 what is; empty where it makes none."""
    words = title.split(" ")
    if _POINTS.search(title):  # away from its page nobody knows what is meant
        return 0, ""
    if how_to := _HOW_TO.fullmatch(title):
        return 1, f"How do I {how_to[1]}?"
    if title.endswith(("?", "\uff1f")) and len(words) > 1:
        return 0, title
    if _ASKS.fullmatch(title) and len(words) > 3:
        return 0, f"{title}?"
    verb = words[0].lower()
    if len(words) > 1 and verb.endswith("ing"):  # `Configuring`, `Running`, `Adding`
        stem = verb[:-3]
        verb = next((one for one in (f"{stem}e", stem, stem[:-1]) if one in _VERBS), "")
    if len(words) > 1 and verb in _VERBS and not re.search(r"[:()]|\b(?:and|or) \w+ing\b", title):
        return 1, f"How do I {' '.join([verb, *words[1:]])}?"
    if (defined := _DEFINED.match(begins)) and defined[2].lower().rstrip("s") == title.lower().rstrip("s"):
        return 2, f"What {defined[3].lower()} {defined[1].lower()}{defined[2]}?"
    return 2, ""
