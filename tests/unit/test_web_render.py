"""A document's Markdown as the page shows it: what notes write, what is marked, and nothing that acts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.links import LinkKind
from retriever.serving.web.section_html import RenderOptions, render_markdown


def shown(markdown: str, **around: object) -> str:
    return render_markdown(markdown, RenderOptions(**around))  # type: ignore[arg-type]  # whatever the fields hold


def resolve(kind: LinkKind, path: str, anchor: str) -> str | None:
    return None if path == "missing" or ":" in path else f"/read?{path},{anchor}"


NOTES = [
    (
        ":material-check:{ .green } Yes, see [it](https://example.org){ .md-button } {a}\n",
        '<p> Yes, see <a href="https://example.org" rel="noreferrer noopener" class="outside">it</a> {a}</p>\n',
    ),
    ("> a quote\n", "<blockquote>\n<p>a quote</p>\n</blockquote>\n"),
    (
        "One[^a], none[^c].\n\n[^a]: First *note*\n    goes on.\n",
        "<p>One<sup>a</sup>, none[^c].</p>\n"
        '<div class="footnote"><sup>a</sup><div>\n<p>First <em>note</em>\ngoes on.</p>\n</div></div>\n',
    ),
    ("Term\n: Its *meaning*\n", "<dl>\n<dt>Term</dt>\n<dd>Its <em>meaning</em></dd>\n</dl>\n"),
    ("It costs $5 or $6, US$7.", "<p>It costs $5 or $6, US$7.</p>\n"),
    ("`$x$` and \\$x$", "<p><code>$x$</code> and $x$</p>\n"),
    ("$x^", "<p>$x^</p>\n"),
    ("$x_1 * y_1 * z$", '<p><code class="math">x_1 * y_1 * z</code></p>\n'),
    ("$$\nx\n$$\n", '<div class="code"><pre><code>\nx</code></pre></div>\n'),
    ("[[note#part|a label]]", '<p><a href="/read?note,part">a label</a></p>\n'),
    ("[[missing]]", '<p><span class="nowhere" title="missing">missing</span></p>\n'),
    ("[x](b.md#c)", '<p><a href="/read?b.md,c">x</a></p>\n'),
    (
        "```python\nreturn 1  # why\n```\n",
        '<div class="code"><span class="language">python</span><pre><code>return 1  # why</code></pre></div>\n',
    ),
]


@pytest.mark.parametrize(("markdown", "html"), NOTES)
def test_what_notes_write_is_shown_as_they_mean_it(markdown: str, html: str) -> None:
    assert shown(markdown, resolve=resolve) == html


def test_tasks_are_boxes_that_cannot_be_changed() -> None:
    made = shown("- [ ] buy\n- [x] **sell**\n- [y] no task\n")
    assert re.findall(r'<input aria-label="(.*?)" class="\S+" disabled="" type="checkbox"', made) == ["to do", "done"]
    assert "<strong>sell</strong></li>" in made
    assert "<li>[y] no task</li>" in made


# What a document may hold -> what it is shown as: nothing of it reaches outside, or is an element of its own.
HOSTILE = {
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>\n",
    "[x](tel:112)": '<p><span class="nowhere" title="tel:112">x</span></p>\n',
    "[x](//e.example/y)": '<p><a href="https://e.example/y" rel="noreferrer noopener" class="outside">x</a></p>\n',
    "<abbr title=x>y</abbr>": '<p><span class="tag" title="&lt;abbr title=x&gt;">&lt;abbr&gt;</span>y'
    '<span class="tag">&lt;/abbr&gt;</span></p>\n',
    "<script>x</script>": '<pre class="raw"><code>&lt;script&gt;x&lt;/script&gt;</code></pre>\n',
    "![a dog](https://e.example/d.png)": '<p><span class="picture" title="https://e.example/d.png"><b>Picture</b> '
    "a dog</span></p>\n",
    "$<script>$": '<p><code class="math">&lt;script&gt;</code></p>\n',
    '```python" onload="alert(1)\n<b>\n```\n': '<div class="code"><pre><code>&lt;b&gt;</code></pre></div>\n',
    "[^<b>]: x": '<div class="footnote"><sup>&lt;b&gt;</sup><div>\n<p>x</p>\n</div></div>\n',
    "a \u202e\x1b[1m b": "<p>a \ufffd\ufffd[1m b</p>\n",
    "[" * 20_000: f"<p>{'[' * 20_000}</p>\n",
}


@pytest.mark.parametrize("markdown", HOSTILE, ids=lambda markdown: markdown[:40])
def test_nothing_of_a_document_acts_or_reaches_outside(markdown: str) -> None:
    assert shown(markdown, resolve=resolve) == HOSTILE[markdown]


ELEMENTS = (
    "a b blockquote br code dd del div dl dt em h2 h3 h4 h5 h6 hr input li mark ol p pre s span strong sup table "
)
ELEMENTS += "tbody td th thead tr ul"
SIGNS = "<>[]()!\"'`*_#|-:&;\\ \n\tjavascript:onx=/a1$^{}+~"


@given(st.text(st.sampled_from(SIGNS), max_size=60))
def test_no_text_makes_an_element_of_its_own(markdown: str) -> None:
    texts = (
        f"- [ ] {markdown}\n\na[^1]\n\n[^1]: {markdown}",
        f"$${markdown}$$",
        f"```c\n{markdown}",
    )
    for text in (markdown, *texts):
        made = shown(text)
        names = {name.lower() for name in re.findall(r"<\s*/?\s*([A-Za-z][^\s/>]*)", made)}
        assert names <= set(ELEMENTS.split())
        assert not re.search(r"<[^>]*\s(on\w+|style|src)=", made)
        assert not re.search(r'href="(?!https?:|mailto:)', made, re.IGNORECASE)


LONG = ["$" * 9_000, "[^1]: " * 3_000, "- [ ] " * 2_000, "$$\n" * 5_000, "a\n: " * 3_000]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[:12]))
def test_hostile_text_costs_no_more_than_other_text(text: str) -> None:
    shown(text)


@pytest.mark.parametrize("opening", [">" * 200, "- " * 200, "1. " * 200, "[^1]: " * 200])
def test_what_is_nested_too_deep_is_not_lost(opening: str) -> None:
    made = shown(f"{opening}deep\n\nafter\n")
    assert "deep" in made
    assert "after" in made


def test_a_link_leads_where_another_section_of_the_file_says() -> None:
    made = shown("See [it][far] and [Near].", definitions="[far]: https://e.example/\n[near]: b.md#c", resolve=resolve)
    assert re.findall('href="(.*?)"', made) == ["https://e.example/", "/read?b.md,c"]


def test_code_that_is_cut_off_where_it_begins_leaves_no_empty_box() -> None:
    assert shown("Words:\n\n```rust…") == "<p>Words:</p>\n"


def test_words_are_marked_and_headings_begin_below_the_title() -> None:
    made = shown("Fusing `fused` ranks\n\n    fuse()\n\n```c\nint fuse;\n```\n", words=frozenset({"fuse"}))
    assert re.findall("<mark>(.*?)</mark>", made) == ["Fusing", "fused", "fuse", "fuse"]
    made = shown("# A *title* {#id}\n\n### Deep\n\n###### Deeper\n", title="A title")
    assert re.findall(r"<h\d>.*?</h\d>", made) == ["<h2>Deep</h2>", "<h5>Deeper</h5>"]


def test_a_picture_is_named() -> None:
    made = shown("![A <dog>](a%20dog.png?x#y) ![[a cat.png|300]] ![far](https://e.example/a%20d.png)")
    assert re.findall("<b>Picture</b> (.*?)</span>", made) == ["A &lt;dog&gt;", "a cat.png", "far"]
