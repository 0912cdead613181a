"""The example of docs/tree.md is what the code does."""

import re
from pathlib import Path

from pageindex.document import parse_document
from pageindex.tree import DocumentTree

PAGE = Path(__file__).parents[2] / "docs/tree.md"


def test_the_example() -> None:
    page = PAGE.read_text("utf-8")
    blocks = dict(re.findall(r"^```(markdown|text)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    documents = [parse_document("guide/install.md", blocks["markdown"]), parse_document("use.md", "## Run\n")]
    tree = DocumentTree.from_documents(documents)
    assert tree.pretty() + "\n" == blocks["text"]
    linux = tree.node("guide/install.md#install/linux")
    assert linux.anchor == "on-linux"
    assert [node.id for node in tree.links(linux.id)] == ["use.md#run"]
