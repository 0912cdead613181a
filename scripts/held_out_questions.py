"""Print the written questions about one corpus as `eval` reads them: with the lines of the section that answers.

    uv run scripts/held_out_questions.py userhelp --sources FOLDER > userhelp.jsonl
    uv run hybrid_retrieve.py eval userhelp.jsonl --docs FOLDER/userhelp

FOLDER is what `scripts/prepare_corpora.py` made. Only a corpus whose questions no encoder has learned says what an
encoder is worth: `held_out` in `scripts/training/corpora.yaml`.
"""

import json
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.training_data import TRAINING, read_nodes


@click.command()
@click.argument("name")
@click.option("--sources", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(name: str, sources: Path) -> None:
    """Print the questions about the corpus NAME below SOURCES."""
    nodes = {f"{name}/{node.id}": node for node in read_nodes(sources / name, "**/*.md")}
    for number, line in enumerate((TRAINING / "questions" / f"{name}.jsonl").read_text().splitlines(), 1):
        row = json.loads(line)
        node = nodes.get(row["section"])
        if node is None or node.span is None:
            print(f"{row['section']} is not below {sources}", file=sys.stderr)
            continue
        place = {"file": node.path, "start_line": node.span.first, "end_line": node.span.last}
        gold = [] if row["style"] == "unanswerable" else [place]
        asked = {"id": f"{name}-{number}", "question": row["question"], "kind": row["style"], "gold": gold}
        print(json.dumps(asked, ensure_ascii=False))


if __name__ == "__main__":
    main()
