"""The settings of a recall mode: their types, defaults, bounds and help, and how they are read.

Layers, later ones win: defaults < the index's own settings < profile file < HYBRID_RETRIEVE_* < flags. All mistakes
of all layers are reported at once, each with its place.
"""

import dataclasses
import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Ge, Gt, Le

from retriever.chunking import ChunkSettings
from retriever.embedding import EncoderSettings
from retriever.errors import ProfileError
from retriever.settings import setting

DEFAULT_PROFILE = "balanced"
ENVIRONMENT_PREFIX = "HYBRID_RETRIEVE_"
NOT_SETTINGS = frozenset({"HYBRID_RETRIEVE_INDEX"})
"""Variables with the prefix that name something else than a setting."""
MAX_PROFILE_BYTES = 64 * 1024

Share = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]
CountOrNone = Annotated[int, Ge(0)]
Weight = Annotated[float, Ge(0), Le(1e6)]


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """Which files of a folder are documents."""

    suffixes: tuple[str, ...] = setting((".md", ".markdown", ".mdx", ".txt"), "Endings of the files that are read.")
    ignore: tuple[str, ...] = setting((), "Patterns of files to leave out, as in .gitignore.")
    max_file_bytes: Count = setting(10_000_000, "Larger files are named and skipped.")


@dataclass(frozen=True, slots=True)
class Profile:
    """Every setting of one recall mode."""

    top_k: Count = setting(5, "How many sections are returned.")
    vector_top_n: Count = setting(40, "How many chunks the dense arm finds for a query.")
    lexical_top_n: Count = setting(100, "How many sections the lexical arm ranks.")
    candidate_cap: Count = setting(30, "How many fused candidates are kept; top_k of them are returned.")
    candidate_file_roots: CountOrNone = setting(
        5, "From how many of the best files the top sections become candidates."
    )
    neighbor_depth: CountOrNone = setting(1, "How many steps up, down and aside a hit brings in its neighbours.")
    siblings_per_node: CountOrNone = setting(2, "How many nearest siblings of a hit come in.")
    links_per_node: CountOrNone = setting(2, "How many linked sections of a hit come in, in the order of its links.")
    parent_decay: Share = setting(0.75, "A parent's score, as a share of the hit's that brought it in.")
    child_decay: Share = setting(0.7, "A child's score, likewise.")
    sibling_decay: Share = setting(0.6, "A sibling's score, likewise.")
    link_decay: Share = setting(0.5, "A linked section's score, likewise.")
    neighbors: Literal["ranking", "merged"] = setting(
        "ranking", "ranking: neighbours are a list of their own, of neighbor_weight; merged: they join the dense list."
    )
    neighbor_weight: Weight = setting(0.1, "The weight of the neighbours' list in the fusion.")
    node_evidence: Literal["best_chunk", "distance_and_rank"] = setting(
        "best_chunk", "A section's dense score: its best chunk's cosine, or that cosine with its rank's share."
    )
    rrf_k: Annotated[float, Gt(0), Le(1e6)] = setting(60, "The k of reciprocal rank fusion: 1 / (k + rank).")
    dense_weight: Weight = setting(1.0, "The weight of the dense list in the fusion.")
    lexical_weight: Weight = setting(1.0, "The weight of the lexical list in the fusion.")
    late_weight: Weight = setting(
        1.0, "The weight of late interaction, which compares the candidates with the question token by token; 0: not."
    )
    late_chunks: Count = setting(20, "How many chunks of a candidate late interaction reads, from its first.")
    rank_weighting: Literal["evidence", "constant"] = setting(
        "evidence", "evidence: a rank counts for as much as its arm found for the section; constant: all count as one."
    )
    page_prior: Share = setting(
        0.3, "What sections of link lists and logs lose of their scores: up to this share, by how much of one they are."
    )
    final_summary_chars: CountOrNone = setting(420, "The length of a hit's summary, in characters.")
    final_text_chars: CountOrNone = setting(1500, "The length of a hit's text in answers, in characters.")
    refresh_max_files: CountOrNone = setting(50, "An ask re-indexes up to so many changed files before it answers.")
    refresh_seconds: Annotated[float, Ge(0), Le(1e9)] = setting(
        1.0, "A retriever that stays open looks at the folders at most this often."
    )
    vector_search: Literal["chroma", "exact"] = setting(
        "chroma", "chroma: approximate, fast at any size; exact: a scan of all vectors, without loading ChromaDB."
    )
    use_llm: bool = setting(False, "Whether a local language model takes part.")
    hyde_variants: CountOrNone = setting(0, "How many hypothetical passages the model writes.")
    hyde_variant_weight: Share = setting(0.7, "The weight of a hypothetical passage beside the question's 1.")
    passage_lexical_weight: Share = setting(0.5, "The same in the lexical arm, where a passage has many words.")
    rewording_weight: Share = setting(1.0, "The weight of the question in other words, in both arms.")
    hyde_temperature: Annotated[float, Ge(0), Le(2)] = setting(0.3, "The temperature at which passages are written.")
    hyde_max_chars: Count = setting(420, "Passages are cut at a sentence before this length.")
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    chunks: ChunkSettings = field(default_factory=ChunkSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)


INDEX_SECTIONS = ("encoder", "chunks", "documents")
"""The sections that decide what is in an index; an index remembers them."""

Layer = tuple[str, Mapping[str, Any]]
"""A place to name in messages, and nested settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the profile."""

    path: tuple[str, ...]
    """Its keys from the top, such as `("encoder", "kind")`."""
    type: Any
    default: Any
    help: str

    @property
    def key(self) -> str:
        """As in messages: `encoder.kind`."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """As on the command line: `--encoder-kind`."""
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        """As in the environment: `HYBRID_RETRIEVE_ENCODER_KIND`."""
        return ENVIRONMENT_PREFIX + "_".join(self.path).upper()


def settings(kind: type = Profile, above: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every leaf of the profile, in the order of declaration."""
    for item in dataclasses.fields(kind):
        path = (*above, item.name)
        if dataclasses.is_dataclass(item.type) and isinstance(item.type, type):
            yield from settings(item.type, path)
        else:
            yield Setting(path, item.type, item.default, item.metadata["help"])


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """`("encoder", "kind")`, `"onnx"` -> `{"encoder": {"kind": "onnx"}}`."""
    head, *rest = path
    return {head: nested(tuple(rest), value) if rest else value}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both layers in one; where they meet, `above` wins, section by section."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            value = merged(under, value)
        result[key] = value
    return result


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """What was said about the settings, before it is checked."""

    layers: tuple[Layer, ...]
    """The lowest first."""

    def profile(self) -> Profile:
        """The profile that the layers make over the defaults.

        Raises:
            ProfileError: with every mistake of every layer.
        """
        return _validated(self.layers) if any(layer for _, layer in self.layers) else Profile()

    def for_index(self) -> dict[str, Any]:
        """What of it decides what is in an index, which remembers it."""
        content: dict[str, Any] = {}
        for _, layer in self.layers:
            content = merged(content, {key: layer[key] for key in INDEX_SECTIONS if key in layer})
        return content


def given_settings(
    name: str = DEFAULT_PROFILE,
    flags: Mapping[str, Any] | None = None,
    index_settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> GivenSettings:
    """The layers of a profile of that name or file.

    Args:
        name: a name in configs/, or the path of a YAML file.
        flags: nested settings that were given by the caller.
        index_settings: what the index remembers; only the defaults are below it.
        environment: os.environ when None.

    Raises:
        ProfileError: there is no such profile, it is no mapping, or a variable names no setting.
    """
    variables = environment_layers(os.environ if environment is None else environment)
    layers = (("index", index_settings or {}), profile_layer(name), *variables, ("settings", flags or {}))
    return GivenSettings(layers)


def load_profile(
    name: str = DEFAULT_PROFILE,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Profile:
    """The profile of that name or file under the environment's (os.environ when None) and the given settings.

    Raises:
        ProfileError: with every mistake of every layer.
    """
    return given_settings(name, flags, environment=environment).profile()


def profile_layer(name: str) -> Layer:
    """The settings of a profile file.

    Raises:
        ProfileError: no such profile, or not YAML, or not a mapping.
    """
    path = _profile_path(name)
    try:
        data = path.read_bytes()
        if len(data) > MAX_PROFILE_BYTES:
            raise ProfileError((f"{path}: larger than {MAX_PROFILE_BYTES // 1024} KB, so no profile",))
        content = yaml.safe_load(data.decode("utf-8"))
    except OSError as error:
        raise ProfileError((f"{path}: cannot be read: {error.strerror}",)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError((f"{path}: not YAML: {' '.join(str(error).split())}",)) from error
    if content is None:
        content = {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ProfileError((f"{path}: must be a mapping of settings, such as `top_k: 5`",))
    return path.name if path.parent == profile_folder() else str(path), content


def environment_layers(environment: Mapping[str, str]) -> list[Layer]:
    """One layer for each HYBRID_RETRIEVE_ variable; its value is read as YAML (`8`, `true`, `[.md]`)."""
    known = {item.variable: item for item in settings()}
    layers: list[Layer] = []
    mistakes = []
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in known:
            mistakes.append(f"{name}: no such setting{_did_you_mean(name, known)}")
            continue
        try:
            layers.append((name, nested(known[name].path, yaml.safe_load(environment[name]))))
        except (yaml.YAMLError, ValueError, RecursionError):
            mistakes.append(f"{name}: cannot be read: {environment[name]!r}")
    if mistakes:
        raise ProfileError(tuple(mistakes))
    return layers


def profile_names() -> tuple[str, ...]:
    """The profiles that come with the program, the default first."""
    names = sorted(path.stem for path in profile_folder().glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PROFILE))


@cache
def profile_folder() -> Path:
    """`configs/` of a checkout, or the copy inside an installed package."""
    here = Path(__file__).resolve().parent
    installed = here / "configs"
    return installed if installed.is_dir() else here.parent / "configs"


def _profile_path(name: str) -> Path:
    if name in profile_names():
        return profile_folder() / f"{name}.yaml"
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.parent != Path():
        return path
    known = profile_names()
    raise ProfileError((f"profile {name!r}: there is none of this name; there are {', '.join(known)}",))


def _validated(layers: Sequence[Layer]) -> Profile:
    """The layers as one profile; each mistake is blamed on the last layer that set the key."""
    from pydantic import TypeAdapter, ValidationError  # 70 ms: not needed by --help, nor by the default settings

    content: dict[str, Any] = {}
    for _, layer in layers:
        content = merged(content, layer)
    mistakes = [mistake for place, layer in layers for mistake in _unknown(place, layer)]
    try:
        # JSON mode is strict about types ("5" is no number) and yet takes a list for a tuple.
        profile = TypeAdapter(Profile).validate_json(json.dumps(content, default=str, allow_nan=True), strict=True)
    except ValidationError as error:
        mistakes += [_mistake(item, layers) for item in error.errors(include_url=False)]
        raise ProfileError(tuple(mistakes)) from error
    mistakes += _language_model_wishes(profile, layers)
    if mistakes:
        raise ProfileError(tuple(mistakes))
    return profile


def _unknown(place: str, layer: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a layer that are no settings."""
    known = {item.key: item for item in settings()}
    sections = {item.path[0] for item in settings() if len(item.path) > 1}
    for key, value in layer.items():
        inside = value if key in sections and isinstance(value, Mapping) else None
        for name in [key] if inside is None else [f"{key}.{inner}" for inner in inside]:
            if name not in known and name not in sections:
                yield f"{place}: {name}: no such setting{_did_you_mean(name, known)}"


def _mistake(item: Mapping[str, Any], layers: Sequence[Layer]) -> str:
    path = tuple(str(part) for part in item["loc"])
    place = next((name for name, layer in reversed(layers) if _holds(layer, path)), "settings")
    return f"{place}: {'.'.join(path)}: {item['msg'][0].lower()}{item['msg'][1:]}, got {item['input']!r}"


def _holds(layer: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether the layer sets the key, or what is above it."""
    head, *rest = path
    if head not in layer:
        return False
    return not rest or not isinstance(layer[head], Mapping) or _holds(layer[head], tuple(rest))


def _did_you_mean(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else "; `profiles balanced` lists them all"


def _language_model_wishes(profile: Profile, layers: Sequence[Layer]) -> Iterator[str]:
    """Asking for a stage that is not there is an error, not silence."""
    for key in ("use_llm", "hyde_variants"):
        if getattr(profile, key):
            place = next(name for name, layer in reversed(layers) if key in layer)
            yield f"{place}: {key}: this version has no language-model stages; leave it off"
