"""Tables of cases in Markdown pages of tests/tables: each row is one case, as a reader would write it.

A cell in backticks is text, letter by letter; a number without them is a number, and `-` is None. Characters that an
editor hides are written as in Python: `\\n`, `\\t`, `\\x1b`, `\\u202e`; a backslash is `\\\\`, and a bar `\\|`. The
column `why` is for readers alone.
"""

import re
from ast import literal_eval
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("tables")
ROW = re.compile(r"^\| (.*) \|$", re.MULTILINE)
BAR = re.compile(r"(?<!\\) \| ")
ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[nrt\\|])")


def read_table(page: str, heading: str) -> list[Any]:
    """Return the rows of the table below a heading of a page; of a table of one column, the cells."""
    text = (FOLDER / f"{page}.md").read_text("utf-8")
    part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    names, *rows = map(BAR.split, ROW.findall(part))
    read = [[read_cell(cell) for name, cell in zip(names, row, strict=True) if name != "why"] for row in rows]
    return [tuple(cells) if len(cells) > 1 else cells[0] for cells in read]


def read_cell(cell: str) -> str | float | None:
    """Return what a cell means."""
    cell = cell.strip()
    if cell == "-":
        return None
    if re.fullmatch(r"-?\d+(?:\.\d+)?", cell):
        return float(cell) if "." in cell else int(cell)
    for quote in ("`` ", "`"):
        if len(cell) > 1 and cell.startswith(quote) and cell.endswith(quote[::-1]):
            cell = cell[len(quote) : -len(quote)]
            break
    return ESCAPED.sub(lambda found: found[0][1:] if found[0] == "\\|" else literal_eval(f'"{found[0]}"'), cell)
