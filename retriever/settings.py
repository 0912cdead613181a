"""The settings of a recall mode: their types, defaults, bounds and help, and how a profile is read.

Layers, later ones win: defaults < the index's own settings < profile file < flags, which may be variables. All mistakes
of all layers are reported at once, each with its place.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

from pageindex.corpus import read_file
from pageindex.markers import MARKERS
from retriever.errors import ProfileError
from retriever.text import find_nearest

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

ENVIRONMENT_PREFIX = "HYBRID_RETRIEVE_"
INDEX_SECTIONS = ("encoder", "documents")  # an index, whose content they decide, remembers them
LEAST_CONTEXT_TOKENS = 100  # a context without any quotation takes at most these


def setting(default: Any, help: str, *flags: str) -> Any:  # noqa: ANN401 - as dataclasses.field, which takes the field's own type
    """Return a dataclass field with its default, one sentence of help, and other flags beside its own."""
    return field(default=default, metadata={"help": help, "other_flags": flags})


class Bounds(dict[str, float]):
    """The range of a number, which pydantic checks, by the names of its ends: `ge`, `gt`, `le`."""

    # It is `annotated_types.Interval`, whose import takes longer than all other modules of `--help` together.

    def __get_pydantic_core_schema__(self, source: type, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        return cast("CoreSchema", {**handler(source), **self})


# The sections of a profile.

Seconds = Annotated[float, Bounds(gt=0, le=3600)]
Count = Annotated[int, Bounds(ge=1)]
CountOrNone = Annotated[int, Bounds(ge=0)]
Weight = Annotated[float, Bounds(ge=0, le=1e6)]
Share = Annotated[float, Bounds(ge=0, le=1)]

DIALECTS = ("auto", "commonmark", *MARKERS, "mdx")
VectorChoice = Literal["exact", "chroma", "hnsw"]
APPROXIMATE: Final = ("chroma", "hnsw")
"""The kinds of search for vectors that look at a part of them."""


@dataclass(frozen=True)
class LlmSettings:
    """Which language model is asked, and for how long."""

    model: str = setting("llama3.2", "Name of the language model on its server.")
    url: str = setting(
        "",
        "Address of the language model's server. Empty: Ollama, at OLLAMA_HOST or http://127.0.0.1:11434. An address "
        "with a path, such as /v1, means OpenAI's API, as LM Studio, llama.cpp and vLLM have it.",
        "--ollama-url",
    )
    num_ctx: Annotated[int, Bounds(ge=1024)] = setting(
        8192,
        "Context window, in tokens: Ollama loads the model with it; other servers may have less.",
    )
    seconds: Seconds = setting(
        30.0,
        "Longest wait for one answer of the model; a third of it for a server that reranks. A stage asks for what the "
        "model can do in a quarter of it, by its measured speed.",
    )


@dataclass(frozen=True)
class AnswerSettings:
    """The writer of the sentences of `answer`."""

    kind: Literal["auto", "extractive"] = setting(
        "auto",
        "auto: the language model writes if its server runs; extractive: the documents are quoted.",
    )


@dataclass(frozen=True)
class RerankSettings:
    """The reranker, which puts the candidates into their last order."""

    kind: Literal["none", "auto", "llm", "onnx", "endpoint"] = setting(
        "none",
        "auto: the language model, if `doctor --llm` found it able; llm: the language model in any case; onnx: a "
        "cross-encoder in a folder; endpoint: a server's /rerank.",
    )
    model: str = setting("", "onnx: a folder made by scripts/export_model.py; endpoint: the name on the server.")
    url: str = setting("", "Server for the kind endpoint, such as http://127.0.0.1:8080/v1.")


# What a user says about the encoder.


@dataclass(frozen=True)
class EncoderSettings:
    """Which model turns texts into vectors, and how it is reached."""

    kind: Literal["onnx", "sentence-transformers", "ollama", "openai", "none"] = setting(
        "onnx", "Where the embedding model runs; none: search by words and structure only."
    )
    model: str = setting(
        "",
        "Its name, or a folder made by scripts/export_model.py; english, multilingual or both: bundled models; empty: "
        "those for the languages of the documents, chosen when an index is made.",
    )
    url: str = setting("", "Server for the kinds ollama (empty: http://127.0.0.1:11434) and openai (ending in /v1).")
    query_prefix: str = setting(
        "",
        "Text before each question; none: nothing; empty: what the model expects, known for ONNX folders, "
        "sentence-transformers and common models on servers (`status` shows it).",
    )
    document_prefix: str = setting("", "Text before each document, likewise.")
    max_tokens: Annotated[int, Bounds(ge=16)] = setting(
        256,
        "Maximum length of a chunk, in tokens; less if the model reads less.",
    )


@dataclass(frozen=True)
class DocumentSettings:
    """Which files of a folder are documents."""

    ignore: tuple[str, ...] = setting((), "Patterns of files to leave out, as in .gitignore.", "--ignore")
    dialect: Literal[DIALECTS] = setting(  # type: ignore[valid-type]  # what `MARKERS` has is not written again
        "auto",
        "The program that the Markdown is written for; auto: told by its files, such as mkdocs.yml.",
    )


@dataclass(frozen=True)
class Profile:
    """Every setting of one recall mode."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # keys that are no setting

    top_k: Count = setting(5, "Number of sections to return.", "-k", "-n", "--limit")
    vector_top_n: Count = setting(60, "Number of chunks that semantic search finds.")
    keyword_top_n: Count = setting(100, "Number of sections that keyword search ranks.")
    candidate_cap: Count = setting(30, "Number of fused candidates to keep; top_k of them are returned.")
    candidate_file_roots: CountOrNone = setting(5, "Add the top sections of this many of the best files as candidates.")
    neighbor_depth: CountOrNone = setting(1, "Number of steps from a hit to the neighbors that it adds.")
    siblings_per_node: CountOrNone = setting(2, "Number of nearest siblings that a hit adds.")
    parent_decay: Share = setting(0.75, "Score of a parent, as a share of its hit's.")
    child_decay: Share = setting(0.7, "Score of a child, likewise.")
    sibling_decay: Share = setting(0.6, "Score of a sibling, likewise.")
    ranking: Literal["evidence", "classic"] = setting(
        "evidence",
        "evidence: each rank is weighted by its evidence, and neighbors are a ranking of their own; classic: ranks "
        "have equal weight, a section has the score of its best chunk, and neighbors join the semantic ranking.",
    )
    rrf_k: Annotated[float, Bounds(gt=0, le=1e6)] = setting(60, "The k of reciprocal rank fusion: 1 / (k + rank).")
    semantic_weight: Weight = setting(1.0, "Weight of semantic search in the fusion.")
    keyword_weight: Weight = setting(1.0, "Weight of keyword search in the fusion.")
    name_weight: Weight = setting(3.0, "Weight of sections whose name or identifier is in the question; 0: off.")
    exact: bool = setting(False, "Do not correct typos.")
    page_prior: Share = setting(0.4, "The largest share of its score that a section of links or log entries loses.")
    read_passages: CountOrNone = setting(
        3, "Number of first sections whose best lines the bundled reader scores, for English questions; 0: off."
    )
    final_summary_chars: CountOrNone = setting(420, "Length of a hit's summary, in characters.")
    final_text_chars: CountOrNone = setting(1500, "Length of a hit's text, in characters.")
    context_tokens: Annotated[int, Bounds(ge=LEAST_CONTEXT_TOKENS)] = setting(
        4000, "Maximum length of --context, in tokens.", "--max-tokens"
    )
    refresh_max_files: CountOrNone = setting(
        50, "Number of changed files that a question indexes again before it is answered."
    )
    vector_search: VectorChoice = setting(
        "exact",
        "exact: compare all vectors; chroma: search ChromaDB's graph; hnsw: search pgvector's graph.",
    )
    use_llm: bool = setting(False, "Use a local language model to expand the question, and perhaps to rerank.")
    allow_remote: bool = setting(
        False, "Allow llm.url and rerank.url on other machines, which then read questions and sections."
    )
    hyde: Literal["auto", "always", "never"] = setting(
        "auto", "Which questions to expand; auto: those that it may help."
    )
    hyde_variant_weight: Share = setting(0.7, "Weight of a hypothetical passage; the question has 1.")
    entity_boost: Weight = setting(
        0.0, "Score added after reranking for each name of the question that a candidate holds."
    )
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)


@dataclass(frozen=True)
class Setting:
    """One leaf of the profile.

    >>> by_key = {setting.key: setting for setting in list_settings()}
    >>> by_key["top_k"].flags, by_key["use_llm"].flags
    (('-k', '-n', '--limit', '--top-k'), ('--use-llm/--no-use-llm',))
    >>> by_key["llm.num_ctx"].flags, by_key["llm.num_ctx"].variable
    (('--llm-num-ctx',), 'HYBRID_RETRIEVE_LLM_NUM_CTX')
    """

    path: tuple[str, ...]  # its keys from the top, such as `("encoder", "kind")`
    type: Any
    default: Any
    help: str
    other_flags: tuple[str, ...]  # beside its own, the shortest first

    @property
    def key(self) -> str:
        """As in messages: `encoder.kind`."""
        return ".".join(self.path)

    @property
    def flags(self) -> tuple[str, ...]:
        """As on the command line: `--encoder-kind`; a switch has two words in one."""
        own = "-".join(self.path).replace("_", "-")
        return (*self.other_flags, f"--{own}/--no-{own}" if self.type is bool else f"--{own}")

    @property
    def variable(self) -> str:
        """As in the environment: `HYBRID_RETRIEVE_ENCODER_KIND`."""
        return ENVIRONMENT_PREFIX + "_".join(self.path).upper()


@cache
def list_settings(kind: type = Profile, above: tuple[str, ...] = ()) -> tuple[Setting, ...]:
    """Return every leaf of the profile, in the order of declaration."""
    found: list[Setting] = []
    for item in dataclasses.fields(kind):
        path = (*above, item.name)
        if dataclasses.is_dataclass(item.type) and isinstance(item.type, type):
            found += list_settings(item.type, path)
        else:
            found.append(Setting(path, item.type, item.default, **item.metadata))
    return tuple(found)


def nest(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Nest a value below its path.

    >>> nest(("encoder", "kind"), "onnx")
    {'encoder': {'kind': 'onnx'}}
    """
    head, *rest = path
    return {head: nest(tuple(rest), value) if rest else value}


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two layers; where they meet, `above` wins, section by section.

    >>> merge({"top_k": 5, "llm": {"model": "a", "url": "b"}}, {"top_k": 8, "llm": {"url": "c"}})
    {'top_k': 8, 'llm': {'model': 'a', 'url': 'c'}}
    >>> merge({"llm": 5}, {"llm": {"url": "c"}}), merge({"llm": {"url": "c"}}, {"llm": 5})
    ({'llm': {'url': 'c'}}, {'llm': 5})
    """
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            value = merge(under, value)
        result[key] = value
    return result


# Profiles, and the layers over them.

DEFAULT_PROFILE = "balanced"
# The variables of the keys for their servers.
KEYS = {section: f"{ENVIRONMENT_PREFIX}{section.upper()}_API_KEY" for section in ("encoder", "llm", "rerank")}
MAX_PROFILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class GivenSettings:
    """The layers of settings, before they are checked."""

    # A place to name in messages, and nested settings, each; the lowest first.
    layers: tuple[tuple[str, Mapping[str, Any]], ...]

    @cached_property
    def merged(self) -> dict[str, Any]:
        """All layers as one; later ones win."""
        return reduce(merge, (layer for _, layer in self.layers), {})

    @cached_property
    def profile(self) -> Profile:
        """The profile of the layers over the defaults; ProfileError with every mistake of every layer."""
        if not self.merged:  # pydantic takes 70 ms the first time, and the defaults need no check
            return Profile()
        from pydantic import ValidationError

        mistakes = []
        for place, layer in self.layers:
            try:
                read_profile(layer)
            except ValidationError as error:
                for item in error.errors(include_url=False):
                    key = ".".join(map(str, item["loc"]))
                    message = f"{item['msg'][0].lower()}{item['msg'][1:]}, got {item['input']!r}"
                    if item["type"] == "unexpected_keyword_argument":  # whose value may be a secret
                        near = find_nearest(key, [known.key for known in list_settings()])
                        hint = f"did you mean {near}?" if near else "`profiles balanced` lists them all"
                        message = f"no such setting; {hint}"
                    mistakes.append(f"{place}: {key}: {message}")
        if mistakes:
            raise ProfileError("\n".join(mistakes))
        return read_profile(self.merged)

    def for_index(self) -> dict[str, Any]:
        """Return the settings that decide what is in an index, which remembers them."""
        return {key: value for key, value in self.merged.items() if key in INDEX_SECTIONS}


def load_profile(name: str = DEFAULT_PROFILE, flags: Mapping[str, Any] | None = None) -> Profile:
    """Load the profile of a name or file, with the given settings over it; ProfileError."""
    return collect_settings(name, flags).profile


def collect_settings(
    name: str, flags: Mapping[str, Any] | None, index_settings: Mapping[str, Any] | None = None
) -> GivenSettings:
    """Collect the layers of a profile, by its name in configs/ or its file.

    Raises:
        ProfileError: there is no such profile, or it is no YAML, or no mapping.
    """
    path, place = Path(name), name
    if name in profile_names():
        place = f"{name}.yaml"
        path = profile_folder() / place
    elif path.suffix not in {".yaml", ".yml"} and path.parent == Path():
        known = ", ".join(profile_names())
        raise ProfileError(f"profile {name!r}: there is none of this name; there are {known}")
    try:
        text = read_file(path, MAX_PROFILE_BYTES, follow_link=True).decode("utf-8")
        content: object = {}
        if not text.endswith("\n{}\n"):  # as the default profile does
            from pageindex.plain_yaml import read_plain_yaml  # 30 ms

            content = read_plain_yaml(text) or {}
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # PlainYamlError, UnicodeDecodeError
        raise ProfileError(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ProfileError(f"{path}: must be a mapping of settings, such as `top_k: 5`")
    return GivenSettings((("index", index_settings or {}), (place, content), ("settings", flags or {})))


def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that come with the program, the default first."""
    names = (path.stem for path in profile_folder().glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_PROFILE, name)))


def profile_summary(name: str) -> str:
    """Return what a bundled profile is for: the comment at the top of its file, as one line."""
    lines = (profile_folder() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.removeprefix("#").strip() for line in comment)


@cache
def profile_folder() -> Path:
    """Return `configs/` of a checkout, or the copy inside an installed package."""
    package = Path(__file__).resolve().parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


@cache
def _profile_type() -> "TypeAdapter[Profile]":
    """Return what checks a profile: pydantic takes 12 ms to make it."""
    from pydantic import TypeAdapter  # 70 ms: not needed by --help, nor by the default settings

    return TypeAdapter(Profile)


def read_profile(content: Mapping[str, Any]) -> Profile:
    """Return settings over the defaults; pydantic's ValidationError."""
    # JSON mode is strict about types ("5" is no number) and yet takes a list for a tuple.
    return _profile_type().validate_json(json.dumps(content, default=str, allow_nan=True), strict=True)
