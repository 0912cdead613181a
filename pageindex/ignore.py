"""Which paths a folder's .gitignore files and the caller's patterns exclude."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pageindex.formats import with_lf

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# In one name, and of `**` in one pattern. Patterns become regular expressions whose time is the length of a name to the
# power of its wildcards, and whoever writes the .gitignore of a folder writes its names too.
MAX_WILDCARDS = 3
MAX_IGNORE_BYTES = 65_536  # of one file: so many of them are kept, parsed


class CorpusError(Exception):
    """A folder or a file cannot be read as documents."""


class IgnorePatternError(CorpusError):
    """A pattern of the caller is no gitignore pattern."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder."""

    caller: "GitIgnoreSpec | None" = None  # the caller's patterns: asked first
    # One for each .gitignore above, innermost first: (what leads from its folder to the root, how many characters of a
    # path lead from the root to its folder, patterns). One of both is empty.
    layers: "tuple[tuple[str, int, GitIgnoreSpec], ...]" = ()

    @classmethod
    def of_caller(cls, patterns: tuple[str, ...]) -> "IgnoreRules":
        """Rules of patterns given by the caller. Raises IgnorePatternError when one of them is no pattern."""
        return cls(_compile(patterns) if patterns else None)

    def below(self, folder: str, spec: "GitIgnoreSpec") -> "IgnoreRules":
        """These rules and the ones of a .gitignore in `folder`."""
        return IgnoreRules(self.caller, (("", len(folder) + 1 if folder else 0, spec), *self.layers))

    def around(self, lead: str, spec: "GitIgnoreSpec") -> "IgnoreRules":
        """These rules and the ones of a .gitignore above the root, from whose folder `lead` leads to it (`docs/`)."""
        return IgnoreRules(self.caller, ((lead, 0, spec), *self.layers))

    def ignores(self, path: str) -> bool:
        """Whether a path relative to the root is excluded; a folder's path ends with `/`, that of the root is empty."""
        asked = (("", 0, self.caller), *self.layers) if self.caller else self.layers
        for lead, skip, spec in asked:
            verdict = spec.check_file(lead + path[skip:]).include
            if verdict is not None:
                return verdict
        return False


@lru_cache(maxsize=64)  # each look at a folder and at a file meets its .gitignore again
def read_ignore_file(text: str) -> tuple["GitIgnoreSpec", tuple[str, ...]]:
    """The patterns of a .gitignore, and its mistakes as clauses; git passes over a pattern that is none as well."""
    patterns, mistakes = [], []
    for number, line in enumerate(with_lf(text.removeprefix("\ufeff")).split("\n"), start=1):
        names = line.split("/")
        if names.count("**") > MAX_WILDCARDS or any(name.count("*") > MAX_WILDCARDS for name in names):
            mistakes.append(f"line {number} is not obeyed: more than {MAX_WILDCARDS} wildcards in one name")
            continue
        try:
            _compile([line])
        except IgnorePatternError:
            mistakes.append(f"line {number} is not obeyed: no pattern")
        else:
            patterns.append(line)
    return _compile(patterns), tuple(mistakes)


def _compile(patterns: Iterable[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # 12 ms, where there are patterns
    from pathspec.patterns.gitignore import GitIgnorePatternError

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except (GitIgnorePatternError, re.error) as error:  # the latter of a range that runs backwards: `[z-a]`
        raise IgnorePatternError(f"not a gitignore pattern: {error}") from error
