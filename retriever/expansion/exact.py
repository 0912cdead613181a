"""What of a question is meant just as it is written: symbols, paths, flags, quoted text. Pure."""

import re

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


def exact_names(text: str) -> tuple[str, ...]:
    """The quoted texts, symbols, paths and flags of a question, each once: quoted ones first.

    >>> exact_names("does `x` reach try_recv() in src/main.rs?")
    ('x', 'try_recv()', 'src/main.rs')
    """
    quoted = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    words = (_ENDINGS.sub("", word) for word in _WORD.findall(_QUOTED.sub(" ", text)))
    return tuple(dict.fromkeys([*quoted, *(word for word in words if _SYMBOL.search(word))]))
