"""A document's Markdown as the page shows it: what notes write, what is marked, and nothing that acts."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.dialects import get_dialect
from retriever.serving.section_html import RenderOptions, cut_lines, locate_picture, render_markdown
from tests.program import PROJECT
from tests.shelf import write_pages
from tests.unit.test_markdown_cases import resolve


def shown(markdown: str, dialect: str = "commonmark", **around: object) -> str:
    options = RenderOptions(dialect=get_dialect(dialect), **around)  # type: ignore[arg-type]  # whatever the fields hold
    return render_markdown(markdown, options)


@pytest.mark.parametrize("folds", ["<details>\n\nx\n\n</details>\n", "> [!tip]- Title\n> x\n"])
def test_what_folds_is_open_where_an_answer_is_in_it(folds: str) -> None:
    assert ' open="">' in shown(folds, unfolded=True)


def test_no_style_of_a_written_list_is_one_of_a_mark() -> None:
    rules = (PROJECT / "retriever/serving/static/page.css").read_text()
    assert set(re.findall(r"\w*\.written", rules)) == {"ul.written", "mark.written"}


@pytest.mark.parametrize(
    ("markdown", "html"),
    [("a \u202e\x1b[1m b &#x202e;", "a \ufffd\ufffd[1m b \ufffd"), ("[" * 20_000, "[" * 20_000)],
    ids=["signs that steer a terminal", "open brackets"],
)
def test_signs_are_shown_and_steer_nothing(markdown: str, html: str) -> None:
    assert shown(markdown) == f"<p>{html}</p>\n"


LIVE = {"button", "embed", "form", "iframe", "link", "object", "script", "style", "svg", "template", "textarea"}
SIGNS = "<>[]()!\"'`*_#|-:&;\\ \n\tjavascript:onx=/a1$^{}+~"


class ActionFinder(HTMLParser):
    """Notes what could run, lead elsewhere, or stand for a part of the page around a text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            leads = name == "href" and not str(value).lower().startswith(("http:", "https:", "mailto:"))
            if leads or name.startswith("on") or name in ("style", "src", "name"):
                self.found.append(f"{name}={value}")
        self.found += LIVE & {tag}


def find_actions(html: str) -> list[str]:
    finder = ActionFinder()
    finder.feed(html)
    return finder.found


@given(st.text(st.sampled_from(SIGNS), max_size=60))
def test_no_text_acts(markdown: str) -> None:
    for text in (
        markdown,
        f"> [!a]- {markdown}",
        f"- [ ] {markdown}\n\na[^1]\n\n[^1]: {markdown}",
        f"$${markdown}$$",
        f"```c\n{markdown}",
        f"<p title={markdown}",
    ):
        assert not find_actions(shown(text))


LONG = ["$" * 9_000, "[^1]: " * 3_000, "> [!a] " * 2_000, "- [ ] " * 2_000, "$$\n" * 5_000, "a\n: " * 3_000]
LONG += [
    "<details>\n" * 3_000,
    "%%\na" * 4_000,
    "<A\n" * 4_000,
    "==a" * 4_000,
    ":::a\n" * 2_000,
    "!!! a\n    " * 2_000,
    "<!-" * 4_000,
]
BLANK = "\n" * 4_900
LONG += [f"```cpp\n{BLANK * 10}", f"```cpp\n{BLANK}```\n" * 10, "$" + "{" * 1_900 + "$", "$&&&$" * 1_900]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[:12]))
def test_hostile_text_costs_no_more_than_other_text(text: str) -> None:
    shown(text)


@pytest.mark.parametrize("opening", [">" * 40, "- " * 20, "1. " * 20, "[^1]: " * 20])
def test_what_is_nested_deep_is_not_lost(opening: str) -> None:
    made = shown(f"{opening}deep\n\nafter\n")
    assert "deep" in made
    assert "after" in made


def test_a_link_leads_where_another_section_of_the_file_says() -> None:
    made = shown("See [it][far] and [Near].", definitions="[far]: https://e.example/\n[near]: b.md#c", resolve=resolve)
    assert re.findall('href="(.*?)"', made) == ["https://e.example/", "/read?b.md,c"]


def test_words_are_marked_and_headings_begin_below_the_title() -> None:
    made = shown("Fusing `fused` ranks\n\n    fuse()\n\n```c\nint fuse;\n```\n", marked=(["fuse"], ()))
    assert re.findall("<mark>(.*?)</mark>", made) == ["Fusing", "fused", "fuse", "fuse"]
    made = shown("# A *title* {#id}\n\n### Deep\n\n###### Deeper\n\n### Next\n\n## High\n\n### Low\n", title="A title")
    assert re.findall(r"<h(\d)>(.*?)</h\1>", made) == [
        ("2", "Deep"), ("3", "Deeper"), ("2", "Next"), ("2", "High"), ("3", "Low"),
    ]  # fmt: skip


@pytest.mark.parametrize(("first", "made"), [(2, "```\na()\n  b()"), (9, "b()")])
def test_code_without_fences_stays_code(first: int, made: str) -> None:
    body = ["Text", "", "    a()", "      b()"]
    assert cut_lines(body, first, 4, body[2:]) == made


def test_a_picture_is_shown_where_it_is_found_and_named_elsewhere() -> None:
    def picture(source: str) -> str | None:
        return f"/picture?name={source}" if source.startswith("a ") else None

    made = shown("![A <dog>](a%20dog.png?x#y) ![[a cat.png|300]] ![far](https://e.example/a%20d.png)", picture=picture)
    assert re.findall(r'<img src="(.*?)" alt="(.*?)"', made) == [
        ("/picture?name=a dog.png", "A &lt;dog&gt;"),
        ("/picture?name=a cat.png", "a cat.png"),
    ]
    assert made.count('class="picture"') == 1, "a picture of another place is named alone"


def test_pictures_are_looked_for_in_the_folder_alone(tmp_path: Path) -> None:
    docs = write_pages(
        tmp_path / "docs", dict.fromkeys(("a/b/p.png", "attachments/q.png", "../out.png", "a/n.txt"), "")
    )

    def found(source: str) -> str:
        return locate_picture(str(docs), "a/note.md", source)

    assert found("b/p.png") == found("./b/../b/p.png") == found("/a/b/p.png") == "a/b/p.png"
    assert found("q.png") == "attachments/q.png"
    for name in ("r.png", "../../out.png", "/../out.png", "n.txt", "p\0.png", "b\\p.png", "..png"):
        assert found(name) == "", name
