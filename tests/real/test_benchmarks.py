import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="it measures processes with os.wait4")
@pytest.mark.timeout(300)
def test_speed_goes_through_all_its_steps(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n\nSome text.\n\n## Part\n\nMore of {name}.\n", "utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "speed.py"), str(tmp_path), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    names = [row[0].removeprefix("| ") for row in rows]
    assert names[1:] == [
        "index all of it",
        "index all of it: memory",
        "`--help`",
        "cold ask",
        "cold ask: memory",
        "cold ask, `--vector-search chroma`",
        "index again, nothing changed",
        "index again, one file changed",
        "warm search, 12 sections",
        "warm search, 12 sections: beside its parts",
        "cold ask, 12 sections: memory",
        "stage of a warm search",
        "refresh, when the last look is a second old",
        *("embed", "dense", "lexical", "neighbors", "fuse", "late", "rerank", "present"),
    ]
