"""What every adapter does: open a retriever, and tell of each hit what a citation needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.api import open_retriever
from retriever.display.json import dump_hit
from retriever.invocation import name_installer
from retriever.retriever import Retriever
from retriever.settings.schema import merge
from retriever.types import Answer, Hit


def open_for_framework(
    docs: Sequence[str | Path],
    index: str | Path | None,
    profile: str,
    settings: Mapping[str, Any] | None,
    top_k: int | None,
) -> Retriever:
    """As `open_retriever`, with `top_k` over the settings where it is given."""
    wanted = {} if top_k is None else {"top_k": top_k}
    return open_retriever(docs, index, profile, merge(settings or {}, wanted))


def describe_hit(answer: Answer, hit: Hit) -> dict[str, Any]:
    """What is known of a hit beside its text, and how sure its answer is; JSON values, `source` is the file's path."""
    known = dump_hit(hit, full=False)
    del known["evidence"]
    return known | {
        "source": f"{hit.folder}/{hit.file}",
        "text_cut": hit.text_cut,
        "verdict": answer.verdict,
        "confidence": answer.confidence,
        "degraded": list(map(str, answer.degraded)),
    }


def explain_missing(extra: str, package: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """What is said where the framework is not installed; the error itself where another module is missing."""
    if error.name is None or error.name.partition(".")[0] != package:  # it is there, and broken
        return error
    return ModuleNotFoundError(f"this needs the extra `{extra}`; run: {name_installer(extra)}", name=error.name)
