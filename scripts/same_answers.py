"""Freeze what this code answers, or compare it with what was frozen: after a change, the same answers.

    uv run scripts/same_answers.py freeze before.json
    uv run scripts/same_answers.py compare before.json                                    # everything
    uv run scripts/same_answers.py compare before.json --set fastapi --profile fast       # in seconds

The questions and documents are those of ../shared/eval; `full` is searched with recorded expansions, without a
language model. Compared are sections, order, scores, passages with lines and text, and verdicts; and what
`tree` and `read` print. The index is made once and kept (`--work`), and brought up to date as `index` does. After a
change of parsing, chunks, vectors or the store give `--reindex`: it is then made anew, which takes minutes.

`compare` exits with 1 where anything differs.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "eval"
SETS = ("fastapi", "rustbook")
EXPANDED = "full"
PARTS = ("fast", "balanced", "recall", "classic", EXPANDED, "tree", "read")
# Recorded expansions stand in for the language model, so nothing else of it takes part.
WITHOUT_MODEL = {"rerank": {"kind": "none"}}
TOP_K = 10
TOLERANCE = 1e-6  # of scores: two machines do not agree on the last bit
STEP = 24  # every 24th question names the lines and the document that are read
HIT_FIELDS = ("score", "node_id", "file", "span", "passage", "snippet", "sentence", "text")
TREE_KEYS = ("node_id", "kind", "file", "title", "level", "start_line", "end_line", "summary")
READ_KEYS = ("file", "start_line", "end_line", "citation", "node_id", "title", "breadcrumb", "text")
MAX_SHOWN = 40  # differences that are printed one by one


class Program:
    """The code under comparison, with an index for each set of questions."""

    def __init__(self, code: Path, work: Path) -> None:
        self.code, self.work = code, work
        # The user's own indexes and caches are neither read nor changed.
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = str(work / name.lower())
        sys.path.insert(0, str(code))

    def run(self, *arguments: str) -> str:
        """Return what a command prints."""
        command = [sys.executable, str(self.code / "hybrid_retrieve.py"), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        if ended.returncode:
            raise click.ClickException(f"{' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout

    def answer(self, name: str, profile: str) -> dict[str, Any]:
        """Return the answer to each question of a set, by its id."""
        from retriever import open_retriever
        from retriever.query import AskRequest, Expansion

        settings: dict[str, Any] = {"top_k": TOP_K}
        expansions = {}
        if profile == EXPANDED:
            settings |= WITHOUT_MODEL
            for row in read_rows(DATA / f"{name}.expansions.jsonl"):
                texts = tuple(row["queries"]), tuple(row["hyde"])
                expansions[row["id"]] = Expansion(*texts, intent=row["intent"])
        with open_retriever(index=self.work / name, profile=profile, settings=settings) as retriever:
            answers = {}
            for row in read_rows(DATA / f"{name}.jsonl"):
                answer = retriever.search(AskRequest(row["question"], expansion=expansions.get(row["id"])))
                for degradation in answer.degraded:
                    click.echo(f"note: {name} {profile} {row['id']}: {degradation}", err=True)
                hits = [{field: getattr(hit, field) for field in HIT_FIELDS} for hit in answer.hits]
                answers[row["id"]] = {"verdict": answer.verdict, "confidence": answer.confidence, "hits": hits}
        return answers

    def show_tree(self, name: str) -> dict[str, Any]:
        """Return the nodes that `tree --json` prints, by their id."""
        nodes = json.loads(self.run("tree", "--json", "--index", str(self.work / name)))["nodes"]
        return {node["node_id"]: {key: node[key] for key in TREE_KEYS} for node in nodes}

    def read(self, name: str) -> dict[str, Any]:
        """Return what `read --json` prints of some sections, documents, and lines of them."""
        sections = [section for section in self.show_tree(name) if "#" in section]
        references = sections[:: len(sections) // 4]
        for row in list(read_rows(DATA / f"{name}.jsonl"))[::STEP]:
            gold = row["gold"][0]
            references += [gold["file"], f"{gold['file']}:{gold['start_line']}-{gold['end_line']}"]
        found = {}
        for reference in dict.fromkeys(references):
            excerpt = json.loads(self.run("read", "--json", "--index", str(self.work / name), reference))
            found[reference] = {key: excerpt[key] for key in READ_KEYS}
        return found


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSONL file."""
    return map(json.loads, file.read_text(encoding="utf-8").splitlines())


def collect(program: Program, sets: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, Any]:
    """Return everything that is compared: `{"fastapi fast": {question id: answer}, "fastapi tree": ...}`."""
    found: dict[str, Any] = {}
    for name in sets:
        begun = time.monotonic()
        program.run("index", str(DATA / "corpora" / name), "--index", str(program.work / name), "--quiet")
        click.echo(f"{name}: indexed in {time.monotonic() - begun:.0f} s", err=True)
        for part in parts:
            begun = time.monotonic()
            if part == "tree":
                found[f"{name} {part}"] = program.show_tree(name)
            elif part == "read":
                found[f"{name} {part}"] = program.read(name)
            else:
                found[f"{name} {part}"] = program.answer(name, part)
            click.echo(f"{name} {part}: {time.monotonic() - begun:.0f} s", err=True)
    return found


def flatten(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each plain value of nested dicts and lists, with its path."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for key, item in items:
            yield from flatten(item, (*path, str(key)))
    else:
        yield path, value


def compare(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what differs between two answers, nodes or excerpts, and how; a field of one side alone is passed over."""
    orders = [[hit["node_id"] for hit in side.get("hits", ())] for side in (before, after)]
    if orders[0] != orders[1]:
        yield "order", f"{orders[0]} -> {orders[1]}"
        before = {key: value for key, value in before.items() if key != "hits"}
    values = dict(flatten(after))
    for path, old in flatten(before):
        new = values.get(path, old)
        is_close = isinstance(old, float) and isinstance(new, int | float) and abs(old - new) <= TOLERANCE
        if old != new and not is_close:
            yield " ".join(path), f"{json.dumps(old)[:300]} -> {json.dumps(new)[:300]}"


def compare_all(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (part, question or section, what, how) of each difference."""
    for part, items in after.items():
        for key in sorted(before[part].keys() | items.keys()):
            if key in before[part] and key in items:
                yield from ((part, key, *difference) for difference in compare(before[part][key], items[key]))
            else:
                yield part, key, "itself", "is gone" if key in before[part] else "is new"


@click.command()
@click.argument("action", type=click.Choice(["freeze", "compare"]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--set", "sets", multiple=True, type=click.Choice(SETS), help="These questions alone.")
@click.option("--profile", "parts", multiple=True, type=click.Choice(PARTS), help="These alone.")
@click.option("--code", type=click.Path(path_type=Path), default=ROOT, help="Another checkout, whose answers count.")
@click.option("--work", type=click.Path(path_type=Path), help="Where the indexes are kept; one for each checkout.")
@click.option("--reindex", is_flag=True, help="Make the indexes anew.")
def main(
    action: str, file: Path, sets: tuple[str, ...], parts: tuple[str, ...], code: Path, work: Path | None, reindex: bool
) -> None:
    """Freeze the answers of this code in FILE, or compare them with those of FILE."""
    begun, code = time.monotonic(), code.resolve()
    own = hashlib.sha256(str(code).encode()).hexdigest()[:8]
    work = (work or Path(tempfile.gettempdir()) / f"same-answers-{code.name}-{own}").resolve()
    chosen = sets or SETS
    if reindex:
        for name in chosen:
            shutil.rmtree(work / name, ignore_errors=True)
    found = collect(Program(code, work), chosen, parts or PARTS)
    if action == "freeze":
        file.write_text(json.dumps(found, default=str, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
        click.echo(f"froze {', '.join(found)} in {time.monotonic() - begun:.0f} s")
        return
    frozen = json.loads(file.read_text(encoding="utf-8"))
    if missing := found.keys() - frozen.keys():
        raise click.ClickException(f"{file} does not hold {', '.join(sorted(missing))}")
    differences = list(compare_all(frozen, json.loads(json.dumps(found, default=str))))
    for part, key, what, how in differences[:MAX_SHOWN]:
        click.echo(f"{part} / {key} / {what}: {how}")
    for (part, what), times in sorted(Counter((part, what.split()[-1]) for part, _, what, _ in differences).items()):
        click.echo(f"{part}: {what}: {times} differ")
    click.echo(f"{'DIFFERENT' if differences else 'the same'} in {time.monotonic() - begun:.0f} s: {', '.join(found)}")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
