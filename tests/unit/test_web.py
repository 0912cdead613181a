"""The parts of the web page that need no server: rendering, elements, the tree, colours, editor links."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.links import LinkKind
from pageindex.node import NodeKind, Span
from retriever.display.editors import EDITOR_TEMPLATES, editor_link
from retriever.errors import UsageError
from retriever.serving.web.contents import Contents, Entry
from retriever.serving.web.elements import element
from retriever.serving.web.frame import EDITOR_NAMES, STATIC
from retriever.serving.web.rendering import Surroundings, rendered
from retriever.serving.web.tree_view import Gap, Marks, only_section, shortened
from retriever.store.outline import OutlineRow


def test_text_and_attributes_are_escaped_and_inert() -> None:
    made = element("a", "<b>&\u202e\x1b\udcff", href='"><script>', hidden=True, title=None, data_x=1)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" hidden data-x="1">&lt;b&gt;&amp;\ufffd\ufffd\\xff</a>'


def shown(markdown: str, **around: object) -> str:
    return rendered(markdown, Surroundings(**around))  # type: ignore[arg-type]  # whatever the fields hold


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("[x](tel:112)", '<p><span class="nowhere" title="tel:112">x</span></p>\n'),
        ("[x](b.md#c)", '<p><a href="/read?b.md,c">x</a></p>\n'),
        (
            "[x](//e.example/y)",
            '<p><a href="https://e.example/y" rel="noreferrer noopener" class="outside">x</a></p>\n',
        ),
        (
            "<abbr title=x>y</abbr>",
            '<p><span class="tag" title="&lt;abbr title=x&gt;">&lt;abbr&gt;</span>y'
            '<span class="tag">&lt;/abbr&gt;</span></p>\n',
        ),
        ("<script>x</script>", '<pre class="raw"><code>&lt;script&gt;x&lt;/script&gt;</code></pre>'),
        (
            "![a dog](https://e.example/d.png)",
            '<p><span class="picture" title="https://e.example/d.png"><b>Picture</b> a dog</span></p>\n',
        ),
        ("[[note#part|a label]]", '<p><a href="/read?note,part">a label</a></p>\n'),
        ("[[missing]]", '<p><span class="nowhere">missing</span></p>\n'),
    ],
)
def test_nothing_of_a_document_reaches_outside(markdown: str, html: str) -> None:
    def resolve(kind: LinkKind, path: str, anchor: str) -> str | None:
        return None if path == "missing" or ":" in path else f"/read?{path},{anchor}"

    assert shown(markdown, resolve=resolve) == html


@given(st.text(st.sampled_from("<>[]()!\"'`*_#|-:&;\\ \n\tjavascript:onx=/a1"), max_size=60))
def test_no_text_makes_an_element_of_its_own(markdown: str) -> None:
    made = shown(markdown)
    names = set(re.findall(r"<\s*/?\s*([A-Za-z][^\s/>]*)", made))
    known = "p h2 h3 h4 h5 h6 pre code span a b em strong s ul ol li br hr blockquote div table thead tbody tr th td"
    assert names <= set(known.split())
    assert not re.search(r"<[^>]*\s(on\w+|style|id|src)=", made)
    assert not re.search(r'href="(?!https?:|mailto:)', made, re.IGNORECASE)


def test_words_are_marked_in_text_and_code() -> None:
    made = shown("Fusing `fused` ranks\n\n    fuse()\n", words=frozenset({"fuse"}))
    assert re.findall("<mark>(.*?)</mark>", made) == ["Fusing", "fused", "fuse"]


def test_a_title_is_not_said_twice_and_headings_begin_below_it() -> None:
    made = shown("# A *title* {#id}\n\n### Deep\n\n###### Deeper\n", title="A title")
    assert re.findall(r"<h\d>.*?</h\d>", made) == ["<h2>Deep</h2>", "<h5>Deeper</h5>"]


@pytest.mark.parametrize("opening", [">" * 200, "- " * 200, "1. " * 200])
def test_what_is_nested_too_deep_is_not_lost(opening: str) -> None:
    made = shown(f"{opening}deep\n\nafter\n")
    assert "deep" in made
    assert "after" in made


def test_a_long_hostile_paragraph_is_shown_as_it_is_written() -> None:
    assert shown("[" * 20_000) == f"<p>{'[' * 20_000}</p>\n"


def rows(*ids: str) -> list[OutlineRow]:
    """A file or section each, from ids such as `a/b.md#c/d`."""
    made = []
    for node_id in ids:
        path, _, section = node_id.partition("#")
        above = node_id.rpartition("/" if "/" in section else "#")[0] if section else None
        kind = NodeKind.SECTION if section else NodeKind.FILE
        title = (section or path).rpartition("/")[2]
        made.append(OutlineRow(node_id, above, "/home/me/docs", "", path, kind, title, Span(1, 2) if section else None))
    return made


def test_the_contents_have_folders_and_keep_the_order() -> None:
    contents = Contents(rows("a.md", "a.md#x", "a.md#x/y", "b/c/d.md"))
    assert [entry.node_id for entry in contents.walk(None)] == [
        "/", "a.md", "a.md#x", "a.md#x/y", "b/", "b/c/", "b/c/d.md",
    ]  # fmt: skip
    root = contents.get("/")
    assert root is not None
    assert (root.title, root.label) == ("/", "docs")
    assert [entry.node_id for entry in contents.walk(root, 1)] == ["/", "a.md", "b/"]
    lit = Marks({"a.md#x/y": 1}).open_ids(contents)
    assert lit == {"/", "a.md", "a.md#x"}


def test_a_file_that_is_one_section_of_its_name_is_one_row() -> None:
    contents = Contents(rows("x", "x#x", "y", "y#z"))
    assert [only_section(entry).node_id for entry in contents.roots[0].children] == ["x#x", "y"]


def test_a_large_family_is_shortened_around_what_is_wanted() -> None:
    family = [Entry(str(n), NodeKind.SECTION, str(n), str(n), "", None, None) for n in range(10_000)]
    short = shortened(family, [5_000])
    assert [item if isinstance(item, Gap) else int(item.node_id) for item in short] == [
        0, 1, 2, 3, 4, 5, Gap(6, 4_993), 4_999, 5_000, 5_001, Gap(5_002, 4_998),
    ]  # fmt: skip
    assert shortened(family[:16], []) == family[:16]


def luminance(color: str) -> float:
    """Relative luminance of `#rrggbb`, as WCAG 2.2 defines it."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


COLORS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", (STATIC / "page.css").read_text(encoding="utf-8")
    )
}
TEXTS = [
    *((ink, paper) for ink in ("ink", "quiet", "link") for paper in ("paper", "surface", "sunken", "lit")),
    *((ink, paper) for ink in ("good", "doubt", "bad") for paper in ("paper", "sunken")),
    ("mark-ink", "mark"),
    ("badge-ink", "badge"),
    ("accent-ink", "accent"),
]
SIGNS = [(sign, "paper") for sign in ("edge", "accent", "badge", "dense", "lexical", "late", "neighbors", "temporal")]


@pytest.mark.parametrize("face", [0, 1], ids=["light", "dark"])
def test_every_text_can_be_read_and_every_sign_be_seen(face: int) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what else carries meaning."""
    low = {pair: contrast(COLORS[pair[0]][face], COLORS[pair[1]][face]) for pair in TEXTS + SIGNS}
    assert [pair for pair in TEXTS if low[pair] < 4.5] == []
    assert [pair for pair in SIGNS if low[pair] < 3.0] == []


def test_static_files_refer_to_nothing_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//\w+\.|@import|url\(", text), path.name


@pytest.mark.parametrize(
    ("editor", "path", "address"),
    [
        ("vscode", "/home/a b/c#d.md", "vscode://file/home/a%20b/c%23d.md:7"),
        ("vim", "/a/b&c.md", "mvim://open?url=file://%2Fa%2Fb%26c.md&line=7"),
        ("emacs", "/a/b.md", "emacs://open?url=file://%2Fa%2Fb.md&line=7"),
        ("jetbrains", "/a/b.md", "idea://open?file=%2Fa%2Fb.md&line=7"),
        ("obsidian", "/a/b.md", "obsidian://open?path=%2Fa%2Fb.md"),
        ("zed://file{path}:{line}", "/a/b\udcff.md", "zed://file/a/b%FF.md:7"),
    ],
)
def test_an_editor_opens_a_file_at_a_line(editor: str, path: str, address: str) -> None:
    assert editor_link(editor, path, 7) == address


def test_an_editor_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="there are vscode, vim"):
        editor_link("ed", str(Path("/a.md")), 1)
    assert EDITOR_NAMES.keys() == EDITOR_TEMPLATES.keys()
