"""Which questions are searched as they are: asking a language model would cost seconds and bring nothing.

docs/internals/ranking.md says what each rule saves and costs.
"""

import re
from collections.abc import Mapping

from retriever.display.phrases import pluralize
from retriever.lexical.tokens import count_words, tokenize
from retriever.searching.open_index import View
from retriever.searching.question_words import cut_words, read_form
from retriever.settings.schema import Profile

MAX_ENTITIES = 5
QUESTION_MAX_WORDS = 2  # questions proper of so few words are not expanded: `how does caching work?` is

_QUOTED = re.compile(r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|(?<!\w)'([^'\n]{1,200})'(?!\w)")
_WORD = re.compile(r"[^\s,;`\"“”]{1,200}")
_ENDINGS = re.compile(r"(?:['\u2019]s)?[.?!:']*$")
_SYMBOL = re.compile(
    r"""^--?[A-Za-z][\w-]*(?:=|$)           # --include-ignored, -v
      | ^(?:\.{0,2}|~|\w+:/)/[\w.{}:~-]     # /docs, ./run.sh, ~/.config, https://...
      | /.*/ | /[\w-]+\.\w{1,5}$            # src/garden/mod.rs, docs/install.md
      | [^\W_]_+[^\W_] | ^_+\w              # try_recv, __init__
      | [a-z0-9][A-Z]                       # BackgroundTasks, camelCase
      | :: | \w\( | ^@\w | ^\#\[ | \w<      # std::mem::drop, fetch(), @app.get, #[ignore], Vec<T>
      | ^[A-Za-z_][\w-]+(?:\.[A-Za-z_]\w+)+$  # response.status_code, Cargo.toml
      | ^[A-Z]\d{3,}$                       # E0382
    """,
    re.VERBOSE,
)
_CAPITALS = re.compile(r"\b[A-Z][\w-]+(?: [A-Z][\w-]+)*")


def find_exact_names(text: str) -> tuple[str, ...]:
    """Return the quoted texts, symbols, paths and flags of a question, each once: quoted ones first.

    >>> find_exact_names("does `x` reach try_recv() in src/main.rs?")
    ('x', 'try_recv()', 'src/main.rs')
    """
    quoted = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    words = (_ENDINGS.sub("", word) for word in _WORD.findall(_QUOTED.sub(" ", text)))
    return tuple(dict.fromkeys([*quoted, *(word for word in words if _SYMBOL.search(word))]))


def count_rare_names(question: str, view: View) -> dict[str, int]:
    """Return the exact names that a few sections hold, and how many do; the product's own name, say, tells nothing."""
    counts = {}
    for name in find_exact_names(question):
        tokens = tokenize(name)
        found = [key for key, _ in view.lexical.search(tokens, 20).ranking] if tokens else []
        # The sections that hold all of its words; the sum of their rarities may differ from 1 in its last bits.
        counts[name] = sum(share > 1 - 1e-9 for share in view.lexical.coverage(tokens, found))
    return {name: count for name, count in counts.items() if 1 <= count < 20}


def reason_to_skip(question: str, names: Mapping[str, int], view: View, settings: Profile) -> str:
    """Return why the question, with the names of `count_rare_names`, needs no expansion; empty when it may need one."""
    if reason := reason_too_short(question, settings):
        return reason
    for name, count in names.items():
        if count <= 5:  # BM25 puts so few among its first hits; other words would only lead away from them
            return f"{count} sections hold {name}"
    tokens = tokenize(question)
    ranking = view.lexical.search(tokens, 2).ranking if tokens else ()
    if ranking and ranking[0][1] > 0:
        best = ranking[0][1]
        margin = best - (ranking[1][1] if len(ranking) > 1 else 0.0)
        (covered,) = view.lexical.coverage(tokens, [ranking[0][0]])
        if covered >= 0.6 and margin >= 0.3 * best:  # chosen on the two sets of docs/guide/language-model.md
            return f"one section holds {covered:.0%} of the question, far before the next"
    return ""


def reason_too_short(question: str, settings: Profile) -> str:
    """Return why a question is too short to expand: a few words name a thing; empty for a longer question.

    What is put as a question says more with as few words: `how does caching work?` is expanded, `caching` is not.
    """
    words, is_question = count_words(question), read_form(cut_words(question)) not in ("words", "function_words")
    if words <= (QUESTION_MAX_WORDS if is_question else settings.hyde_skip_max_words):
        return f"the question has {pluralize(words, 'word')}"
    return f"the question has {len(question)} characters" if len(question) < settings.min_query_length else ""


def find_entities(question: str) -> tuple[str, ...]:
    """Return the names that a question speaks of, each once, as it writes them.

    >>> find_entities("does Postgres keep `x` after the Big Migration?")
    ('x', 'Postgres', 'Big Migration')
    """
    start = len(question) - len(question.lstrip().partition(" ")[2])  # behind the first word, which has one anyway
    by_words: dict[tuple[str, ...], str] = {}
    for name in (*find_exact_names(question), *(match[0] for match in _CAPITALS.finditer(question, start))):
        if words := tuple(tokenize(name)):
            by_words.setdefault(words, name)
    return tuple(by_words.values())[:MAX_ENTITIES]
