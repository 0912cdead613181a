"""How a profile is read.

Layers, later ones win: defaults < the index's own settings < profile file < flags, which may be variables. All mistakes
of all layers are reported at once, each with its place.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pageindex.corpus import read_file
from retriever.errors import ProfileError
from retriever.settings.schema import (
    INDEX_SECTIONS,
    Profile,
    list_settings,
    merge,
    name_variable,
)
from retriever.text import find_nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

DEFAULT_PROFILE = "balanced"
KEYS = {section: name_variable(section, "api_key") for section in ("encoder", "llm", "rerank")}  # of their servers
MAX_PROFILE_BYTES = 64 * 1024

# A place to name in messages, and nested settings.
Layer = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class GivenSettings:
    """The layers of settings, before they are checked."""

    layers: tuple[Layer, ...]  # the lowest first

    @cached_property
    def profile(self) -> Profile:
        """The profile of the layers over the defaults; ProfileError with every mistake of every layer."""
        # pydantic takes 70 ms the first time. The defaults need no check.
        return validate(self.layers) if any(layer for _, layer in self.layers) else Profile()

    def for_index(self) -> dict[str, Any]:
        """Return the settings that decide what is in an index, which remembers them."""
        return {key: value for key, value in merge_layers(self.layers).items() if key in INDEX_SECTIONS}


def merge_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    return reduce(merge, (layer for _, layer in layers), {})


def collect_settings(
    name: str, flags: Mapping[str, Any] | None, index_settings: Mapping[str, Any] | None = None
) -> GivenSettings:
    """Collect the layers of a profile, by its name in configs/ or its file; ProfileError if one cannot be read."""
    return GivenSettings((("index", index_settings or {}), profile_layer(name), ("settings", flags or {})))


def load_profile(name: str = DEFAULT_PROFILE, flags: Mapping[str, Any] | None = None) -> Profile:
    """Load the profile of a name or file, with the given settings over it; ProfileError."""
    return collect_settings(name, flags).profile


def profile_layer(name: str) -> Layer:
    """Read the settings of a profile file. Raises ProfileError when no such profile, or not YAML, or not a mapping."""
    path = Path(name)
    if name in profile_names():
        path = profile_folder() / f"{name}.yaml"
    elif path.suffix not in {".yaml", ".yml"} and path.parent == Path():
        known = ", ".join(profile_names())
        raise ProfileError((f"profile {name!r}: there is none of this name; there are {known}",))
    try:
        text = read_file(path, MAX_PROFILE_BYTES, follow_link=True).decode("utf-8")
        content: object = {}
        if not text.endswith("\n{}\n"):  # as the default profile does
            from pageindex.plain_yaml import read_plain_yaml  # 30 ms

            content = read_plain_yaml(text) or {}
    except OSError as error:
        raise ProfileError((f"{path}: cannot be read: {error.strerror}",)) from error
    except ValueError as error:  # PlainYamlError, UnicodeDecodeError
        raise ProfileError((f"{path}: not YAML: {error}",)) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ProfileError((f"{path}: must be a mapping of settings, such as `top_k: 5`",))
    return path.name if path.parent == profile_folder() else str(path), content


def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that come with the program, the default first."""
    names = sorted(path.stem for path in profile_folder().glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PROFILE))


def profile_summary(name: str) -> str:
    """Return what a bundled profile is for: the comment at the top of its file, as one line."""
    lines = (profile_folder() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.removeprefix("#").strip() for line in comment)


@cache
def profile_folder() -> Path:
    """Return `configs/` of a checkout, or the copy inside an installed package."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


@cache
def _profile_type() -> "TypeAdapter[Profile]":
    """Return what checks a profile: pydantic takes 12 ms to make it."""
    from pydantic import TypeAdapter  # 70 ms: not needed by --help, nor by the default settings

    return TypeAdapter(Profile)


def validate(layers: Sequence[Layer]) -> Profile:
    """Turn the layers into one profile; ProfileError with every mistake of every layer."""
    mistakes = [mistake for name, layer in layers for mistake in find_mistakes(name, layer)]
    if mistakes:
        raise ProfileError(tuple(mistakes))
    return read_profile(merge_layers(layers))


def find_mistakes(name: str, layer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the settings of a layer, each with its place."""
    from pydantic import ValidationError  # as above

    try:
        read_profile(layer)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            key = ".".join(map(str, item["loc"]))
            message = f"{item['msg'][0].lower()}{item['msg'][1:]}, got {item['input']!r}"
            if item["type"] == "unexpected_keyword_argument":  # whose value may be a secret
                near = find_nearest(key, [known.key for known in list_settings()])
                message = "no such setting; " + (
                    f"did you mean {near}?" if near else "`profiles balanced` lists them all"
                )
            yield f"{name}: {key}: {message}"


def read_profile(content: Mapping[str, Any]) -> Profile:
    """Return settings over the defaults; pydantic's ValidationError."""
    # JSON mode is strict about types ("5" is no number) and yet takes a list for a tuple.
    return _profile_type().validate_json(json.dumps(content, default=str, allow_nan=True), strict=True)
