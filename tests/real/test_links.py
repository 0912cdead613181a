"""Where links lead, in an index: the vault and the links of tests/link_cases.md."""

import re
from pathlib import Path

from tests.shelf import Shelf

PAGE = Path(__file__).parents[1] / "link_cases.md"


def test_links_lead_where_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    files = dict(re.findall(r"^`{9} file (.+?)\n(.*?)^`{9}$", page, re.DOTALL | re.MULTILINE))
    links = re.findall(r"^- (.+) -> ", page, re.MULTILINE)
    files["guide/intro.md"] += "\n\n".join(links)
    shelf = Shelf(tmp_path, files)
    shelf.update()
    with shelf.rows() as rows:
        found = rows.execute(
            "SELECT coalesce(target_id, problem, 'elsewhere') FROM links JOIN nodes ON node_key = source_key"
            " WHERE node_id GLOB 'guide/intro.md*' ORDER BY line"
        ).fetchall()
    led = [f"- {link} -> {target}" for link, (target,) in zip(links, found[-len(links) :], strict=True)]
    assert led == re.findall(r"^- .+ -> .+$", page, re.MULTILINE)
