"""Where links lead. How they are found in a text is in `tests/markdown_cases/dialects.md`."""

import pytest

from pageindex.document import Document, parse_document, resolve_links
from pageindex.links import Broken, Link, LinkKind, LinkTargets, note_names, resolve_link

TARGETS = LinkTargets(
    anchors={
        "index.md": {"": "index.md", "top": "index.md#top"},
        "guide/intro.md": {"": "guide/intro.md", "set-up": "guide/intro.md#set-up", "v1": "guide/intro.md#versions"},
        "guide/README.md": {"": "guide/README.md"},
        "a/Note.md": {"": "a/Note.md"},
        "b/deep/Note.md": {"": "b/deep/Note.md"},
        "read me.txt": {"": "read me.txt"},
    },
    notes={"note": "a/Note.md", "intro": "guide/intro.md", "start here": "index.md", "v1.2 notes": "index.md"},
)


def lead(target: str, source: str = "guide/intro.md", kind: LinkKind = LinkKind.RELATIVE) -> str | Broken:
    path, _, anchor = target.partition("#")
    return resolve_link(Link(1, path, anchor, kind), source, TARGETS)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("../index.md", "index.md"),
        ("../index.md#top", "index.md#top"),
        ("#set-up", "guide/intro.md#set-up"),
        ("#Set up", "guide/intro.md#set-up"),
        ("#v1", "guide/intro.md#versions"),
        ("#", "guide/intro.md"),
        ("intro", "guide/intro.md"),
        ("intro.html#set-up", "guide/intro.md#set-up"),
        ("./", "guide/README.md"),
        ("../guide", "guide/README.md"),
        ("..", "index.md"),
        ("/read me.txt", "read me.txt"),
        ("../../index.md", Broken.ESCAPES),
        ("../x/../../index.md", Broken.ESCAPES),
        ("missing.md", Broken.NO_DOCUMENT),
        ("missing.html", Broken.NO_DOCUMENT),
        ("missing", Broken.NO_DOCUMENT),
        ("picture.png", Broken.NOT_A_DOCUMENT),
        ("../src/main.rs#L1", Broken.NOT_A_DOCUMENT),
        ("#gone", Broken.NO_ANCHOR),
        ("#!?", Broken.NO_ANCHOR),
    ],
)
def test_relative_links(target: str, expected: str | Broken) -> None:
    assert lead(target) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Note", "a/Note.md"),
        ("NOTE.md", "a/Note.md"),
        ("b/deep/Note", "b/deep/Note.md"),
        ("intro#Set up", "guide/intro.md#set-up"),
        ("intro#^block1", "guide/intro.md"),
        ("#Set up", "guide/intro.md#set-up"),
        ("Start Here", "index.md"),
        ("v1.2 notes", "index.md"),
        ("Nowhere", Broken.NO_DOCUMENT),
        ("intro#Gone", Broken.NO_ANCHOR),
    ],
)
def test_wikilinks(target: str, expected: str | Broken) -> None:
    assert lead(target, kind=LinkKind.WIKILINK) == expected


def test_note_names_prefer_file_names_then_short_paths() -> None:
    documents = [("a/long/Home.md", []), ("y/Home.md", ["Start"]), ("x/Home.md", ["home", "Start"]), ("c.md", ["A"])]
    assert note_names(documents) == {"home": "x/Home.md", "c": "c.md", "start": "x/Home.md", "a": "c.md"}


def test_links_between_parsed_documents() -> None:
    documents = [
        parse_document("a.md", "# A\n\n[b](b.md#part) [[Other name#Part]]\n\n## Sub\n\n[x](x.md)\n"),
        parse_document("b.md", "---\naliases: [Other name]\n---\n# B\n\n## Part\n"),
    ]
    assert drawn(documents) == [
        "a.md#a -> b.md#b/part",
        "a.md#a -> b.md#b/part",
        "a.md#a/sub -> Broken.NO_DOCUMENT",
    ]


def test_folders_of_one_index_do_not_see_each_other() -> None:
    documents = [parse_document("a.md", "[b](b.md)", "one:"), parse_document("b.md", "[a](b.md)", "two:")]
    assert drawn(documents) == ["one:a.md -> Broken.NO_DOCUMENT", "two:b.md -> two:b.md"]


def drawn(documents: list[Document]) -> list[str]:
    return [f"{source} -> {target}" for source, _, target in resolve_links(documents)]
