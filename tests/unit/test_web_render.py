"""A document's Markdown as the page shows it: what notes write, what is marked, and nothing that acts."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.dialects import get_dialect
from pageindex.links import LinkKind
from pageindex.node import Span
from retriever.serving.web.section_html import Picture, RenderOptions, locate_picture, render_markdown
from tests.program import PROJECT


def shown(markdown: str, dialect: str = "commonmark", **around: object) -> str:
    options = RenderOptions(dialect=get_dialect(dialect), **around)  # type: ignore[arg-type]  # whatever the fields hold
    return render_markdown(markdown, options)


def resolve(kind: LinkKind, path: str, anchor: str) -> str | None:
    return None if path == "missing" or ":" in path else f"/read?{path},{anchor}"


NOTES = [
    ("> [!note]\n", '<div class="callout note" role="note">\n<p class="title">Note</p>\n</div>\n'),
    (
        "> [!tip]- Why?\n>\n> So.\n",
        '<details class="callout tip">\n<summary class="title">Why?</summary>\n<p>So.</p>\n</details>\n',
    ),
    ("> [!tip]+ T\n", '<details class="callout tip" open="">\n<summary class="title">T</summary>\n</details>\n'),
    ("> a quote\n", "<blockquote>\n<p>a quote</p>\n</blockquote>\n"),
    (
        "One[^a], none[^c].\n\n[^a]: First *note*\n    goes on.\n",
        '<p>One<sup><a href="#note-1">a</a></sup>, none[^c].</p>\n'
        '<div class="footnote"><sup id="note-1">a</sup><div>\n<p>First <em>note</em>\ngoes on.</p>\n</div></div>\n',
    ),
    ("It costs $5 or $6, US$7.", "<p>It costs $5 or $6, US$7.</p>\n"),
    ("`$x$` and \\$x$", "<p><code>$x$</code> and $x$</p>\n"),
    ("$x^", "<p>$x^</p>\n"),
    ("$x^$", '<p><code class="math">x^</code></p>\n'),
    ("[[note#part|a label]]", '<p><a href="/read?note,part">a label</a></p>\n'),
    ("Words:\n\n```rust…", "<p>Words:</p>\n"),
    (
        "```mermaid\nA-->B\n```\n",
        '<div class="code"><span class="language">mermaid diagram, as it is written</span><pre><code>'
        "A--&gt;B</code></pre></div>\n",
    ),
    ("[[missing]]", '<p><span class="nowhere" title="missing">missing</span></p>\n'),
    ("[x](b.md#c)", '<p><a href="/read?b.md,c">x</a></p>\n'),
    (
        "```python\nreturn 1  # why\n```\n",
        '<div class="code"><span class="language">python</span><pre><code><span class="code-keyword">return</span> '
        '<span class="code-number">1</span>  <span class="code-comment"># why</span></code></pre></div>\n',
    ),
]


@pytest.mark.parametrize(("markdown", "html"), NOTES)
def test_what_notes_write_is_shown_as_they_mean_it(markdown: str, html: str) -> None:
    assert shown(markdown, resolve=resolve) == html


def test_what_mkdocs_adds_is_shown_as_its_pages_show_it() -> None:
    icon = ":material-check:{ .green } Yes, see [it](https://example.org){ .md-button } {a}\n"
    link = '<a href="https://example.org" rel="noreferrer noopener" class="outside">it</a>'
    assert shown(icon, "mkdocs") == f"<p> Yes, see {link} {{a}}</p>\n"
    meaning = "<dl>\n<dt>Term</dt>\n<dd>Its <em>meaning</em></dd>\n</dl>\n"
    assert shown("Term\n: Its *meaning*\n", "mkdocs") == meaning


def test_components_of_mdx_are_shown_by_their_titles() -> None:
    text = '<Note>*a*</Note> <Card title="b">c</Card>\n\n<Tab title="npm">\n\nd\n\n</Tab>\n'
    assert shown(text, "mdx") == '<p><em>a</em> <strong>b</strong> c</p>\n<p class="title">npm</p>\n<p>d</p>\n'


CALLOUT = '<div class="callout tip" role="note">\n<p class="title">{}</p>\n<p>Body <em>of</em> it.</p>\n</div>\n'
BODY = "Body *of* it."


@pytest.mark.parametrize(
    ("dialect", "markdown", "title"),
    [
        ("mkdocs", f"/// tip | A *title*\n\n{BODY}\n\n///\n", "A <em>title</em>"),
        ("mkdocs", f"/// tip\n{BODY}\n///\n", "Tip"),
        ("vitepress", f":::tip\n{BODY}\n:::\n", "Tip"),
        ("vitepress", f"::: tip A title\n\n{BODY}\n:::\n", "A title"),
        ("docusaurus", f":::tip[A title]\n\n{BODY}\n\n:::\n", "A title"),
        ("myst", f"```{{tip}} A title\n{BODY}\n```\n", "A title"),
        ("mkdocs", f'!!! tip "A title"\n    {BODY}\n', "A title"),
        ("mkdocs", f"!!! tip\n\n    {BODY}\n", "Tip"),
        ("commonmark", f"> [!tip] A *title*\n> {BODY}\n", "A <em>title</em>"),
    ],
)
def test_a_callout_is_written_in_many_ways(dialect: str, markdown: str, title: str) -> None:
    assert shown(markdown, dialect) == CALLOUT.format(title)
    assert shown(f"- item\n\n{markdown.replace(BODY, 'x')}\nafter", dialect).endswith("<p>after</p>\n")


def test_callouts_hold_others_and_fold() -> None:
    tabs = shown("//// tab | Linux\n\n/// note\n\nx\n\n///\n\n////\n\nafter\n", "mkdocs")
    assert re.findall(r'class="callout (\w+)"', tabs) == ["tab", "note"]
    assert tabs.endswith("</div>\n</div>\n<p>after</p>\n")
    assert shown("??? bug\n    x\n", "mkdocs").startswith(
        '<details class="callout danger">\n<summary class="title">Bug</summary>'
    )
    assert shown("???+ bug\n    x\n", "mkdocs").startswith('<details class="callout danger" open="">')
    folded = shown("<details>\n<summary>More <b>of</b> it</summary>\n\n- *x*\n\n</details>\n\nafter")
    assert folded == (
        '<details class="callout note">\n<summary class="title">More of it</summary>\n'
        "<ul>\n<li><em>x</em></li>\n</ul>\n</details>\n<p>after</p>\n"
    )
    for folds in ("<details>\n\nx\n\n</details>\n", "> [!tip]- Title\n> x\n"):
        assert ' open="">' in render_markdown(folds, RenderOptions(unfolded=True))


def test_a_tab_of_mkdocs_is_a_callout_and_in_code_it_is_code() -> None:
    tabs = shown('=== "Linux"\n\n    ```sh\n    apt x\n    ```\n\n=== "Mac"\n    x\n\n```md\n=== "no"\n```\n', "mkdocs")
    assert re.findall(r'class="title">(.*?)<', tabs) == ["Linux", "Mac"]
    assert re.findall(r"<code>(.*?)</code>", tabs) == ["apt x", "=== &quot;no&quot;"]


def test_marks_are_marked_and_comments_left_out() -> None:
    assert shown("a ==b *c*== d == e", "obsidian") == '<p>a <mark class="written">b <em>c</em></mark> d == e</p>\n'
    rules = (PROJECT / "retriever/serving/web/static/page.css").read_text()
    assert re.findall(r"\w*\.written", rules) == ["ul.written", "mark.written"]  # none of a list's for a mark
    assert shown("a %%b%% c\n\n%% d %%\n\n%%\ne\n\nf\n%%\n\ng", "obsidian") == "<p>a  c</p>\n<p>g</p>\n"
    assert shown("a\n\n{/* h\n\ni */}\n\ng", "mdx") == "<p>a</p>\n<p>g</p>\n"
    assert shown("%% a\n\nb", "obsidian") == "<p>%% a</p>\n<p>b</p>\n", "one that nothing ends is text"
    assert shown("`==a== %%b%%`", "obsidian") == "<p><code>==a== %%b%%</code></p>\n"


def test_a_header_without_text_is_no_header() -> None:
    assert "<thead>\n<tr>\n<td></td>\n<th>b</th>\n</tr>" in shown("| | b |\n|---|---|\n| 1 | 2 |\n")


def test_tasks_are_boxes_that_cannot_be_changed() -> None:
    made = shown("- [ ] buy\n- [x] **sell**\n- [y] no task\n")
    assert re.findall(r'<input aria-label="(.*?)" class="\S+" disabled="" type="checkbox"', made) == ["to do", "done"]
    assert "<strong>sell</strong></li>" in made
    assert "<li>[y] no task</li>" in made


@pytest.mark.parametrize(
    ("markdown", "mathml"),
    [
        ("$E = mc^2$", "<mi>m</mi><msup><mi>c</mi><mn>2</mn></msup>"),
        (
            "$$\n\\frac{a+b}{2}\n$$\n",
            "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mrow><mn>2</mn></mrow></mfrac>",
        ),
        ("see $$\\alpha < 1$$ there", "<mi>\u03b1</mi><mo>&lt;</mo><mn>1</mn>"),
        ("```math\n\\sqrt{x}\n```\n", "<msqrt><mrow><mi>x</mi></mrow></msqrt>"),
        ("$\\quad\\rule{9em}{900em}\\hspace{900em}\\kern{-90em}$", '<mspace width="1em" />'),
    ],
)
def test_a_formula_is_mathml(markdown: str, mathml: str) -> None:
    made = shown(markdown)
    assert mathml in made
    assert not re.search(r"\d{2}em\"|-\d+em\"|height=|depth=", made), "no size that reaches over what is beside it"


# What a document may hold -> what it is shown as: nothing of it reaches outside, or is an element of its own.
HOSTILE = {
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>\n",
    "[x](tel:112)": '<p><span class="nowhere" title="tel:112">x</span></p>\n',
    "[x](//e.example/y)": '<p><a href="https://e.example/y" rel="noreferrer noopener" class="outside">x</a></p>\n',
    "<abbr title=x>y</abbr><br onclick=x>": "<p>y<br></p>\n",
    "Vec<T> <Note>*a*</Note>": ('<p>Vec&lt;T&gt; &lt;Note&gt;<em>a</em><span class="tag">&lt;/Note&gt;</span></p>\n'),
    "Vec<T onclick=x>": "<p>Vec&lt;T onclick=x&gt;</p>\n",
    "<!-- no --> x <!-- y -->\n\n<iframe src=//e.example></iframe>": '<pre class="raw"><code>&lt;!-- no --&gt; x '
    "&lt;!-- y --&gt;</code></pre>\n",
    '<div class="x">\n\nwords\n\n</div>': "<p>words</p>\n",
    '<p><img onerror=x src="https://e.example/d.png" alt="a dog"></p>': '<p><span class="picture" '
    'title="https://e.example/d.png"><b>Picture</b> a dog</span></p>\n',
    '<details onclick="x">\n<summary><b onclick=x>T</b></summary>\n\n<script>x</script>': '<details class="callout '
    'note">\n<summary class="title">T</summary>\n<pre class="raw"><code>&lt;script&gt;x&lt;/script&gt;</code></pre>\n',
    "<script>x</script>": '<pre class="raw"><code>&lt;script&gt;x&lt;/script&gt;</code></pre>\n',
    "![a dog](https://e.example/d.png)": '<p><span class="picture" title="https://e.example/d.png"><b>Picture</b> '
    "a dog</span></p>\n",
    "$\\text{<script>x</script>}$": '<p><span class="math" title="\\text{&lt;script&gt;x&lt;/script&gt;}">'
    '<math display="inline"><mrow><mtext>&lt;script&gt;x&lt;/script&gt;</mtext></mrow></math></span></p>\n',
    "$\\text{&lt;b&gt;}$": '<p><span class="math" title="\\text{&amp;lt;b&amp;gt;}">'
    '<math display="inline"><mrow><mtext>&lt;b&gt;</mtext></mrow></math></span></p>\n',
    "$\\href{javascript:x}{y}$": '<p><span class="math" title="\\href{javascript:x}{y}">'
    '<math display="inline"><mrow><mrow><mrow><mi>y</mi></mrow></mrow></mrow></math></span></p>\n',
    "$\\style{color:red}{y}\\class{top}{z}$": '<p><span class="math" title="\\style{color:red}{y}\\class{top}{z}">'
    '<math display="inline"><mrow><mrow><mi>y</mi></mrow><mrow><mi>z</mi></mrow></mrow></math></span></p>\n',
    '```python" onload="alert(1)\n<b>\n```\n': '<div class="code"><pre><code>&lt;b&gt;</code></pre></div>\n',
    "[^<b>]: x": '<div class="footnote"><sup id="note-1">&lt;b&gt;</sup><div>\n<p>x</p>\n</div></div>\n',
    '> [!note] <b onclick="x">\n': '<div class="callout note" role="note">\n'
    '<p class="title">&lt;b onclick=&quot;x&quot;&gt;</p>\n</div>\n',
    "a \u202e\x1b[1m b": "<p>a \ufffd\ufffd[1m b</p>\n",
    "[" * 20_000: f"<p>{'[' * 20_000}</p>\n",
}


@pytest.mark.parametrize("markdown", HOSTILE, ids=lambda markdown: markdown[:40])
def test_nothing_of_a_document_acts_or_reaches_outside(markdown: str) -> None:
    assert shown(markdown, resolve=resolve) == HOSTILE[markdown]


ELEMENTS = (
    "a b blockquote br code dd del details div dl dt em h2 h3 h4 h5 h6 hr input li mark math menclose mfrac mi mn mo "
    "mover mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover ol p pre s span "
    "strong summary sup table tbody td th thead tr ul "
)
SIGNS = "<>[]()!\"'`*_#|-:&;\\ \n\tjavascript:onx=/a1$^{}+~"


@given(st.text(st.sampled_from(SIGNS), max_size=60))
def test_no_text_makes_an_element_of_its_own(markdown: str) -> None:
    texts = (
        f"> [!a]- {markdown}",
        f"- [ ] {markdown}\n\na[^1]\n\n[^1]: {markdown}",
        f"$${markdown}$$",
        f"```c\n{markdown}",
    )
    for text in (markdown, *texts):
        made = shown(text)
        names = {name.lower() for name in re.findall(r"<\s*/?\s*([A-Za-z][^\s/>]*)", made)}
        assert names <= set(ELEMENTS.split())
        assert not re.search(r"<[^>]*\s(on\w+|style|src)=", made)
        assert not re.search(r'href="(?!https?:|mailto:|#note-\d)', made, re.IGNORECASE)


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
    made = shown("Fusing `fused` ranks\n\n    fuse()\n\n```c\nint fuse;\n```\n", words=frozenset({"fuse"}))
    assert re.findall("<mark>(.*?)</mark>", made) == ["Fusing", "fused", "fuse", "fuse"]
    made = shown("# A *title* {#id}\n\n### Deep\n\n###### Deeper\n\n### Next\n\n## High\n\n### Low\n", title="A title")
    assert re.findall(r"<h(\d)>(.*?)</h\1>", made) == [
        ("2", "Deep"), ("3", "Deeper"), ("2", "Next"), ("2", "High"), ("3", "Low"),
    ]  # fmt: skip


PAGE = """\
Words above.

| year | rain |
|------|-----:|
| 1900 | much |
| 1901 | none |

```python
first()

second()
```

3. three
4. four

   of four
5. five

> quoted
> still

[^n]: A note.
"""


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("| 1901 | none |", "<table>\n<thead>\n<tr>\n<th>year</th>\n<th class=\"right\">rain</th>\n</tr>\n</thead>\n"
         '<tbody>\n<tr class="passage" id="passage">\n<td>1901</td>'),
        ("second()", '<div class="code passage" id="passage"><span class="language">python</span><pre><code>first()\n'),
        ("   of four", '<ol start="4">\n<li>\n<p class="passage" id="passage">of four</p>'),
        ("5. five", '<ol start="5">\n<li class="passage" id="passage">\n<p>five</p>'),
        ("> still", '<blockquote class="passage" id="passage">\n<p>quoted\nstill</p>'),
        ("[^n]: A note.", '<div class="footnote passage" id="passage"><sup id="note-1">n</sup><div>\n<p>A note.</p>'),
    ],
)  # fmt: skip
def test_an_excerpt_that_begins_inside_a_block_is_shown_as_that_block(line: str, begins: str) -> None:
    place = PAGE.split("\n").index(line)
    made = shown(PAGE, shown=(place, None), passage=Span(place + 1, place + 1))
    assert made.removeprefix('<div class="scroll" tabindex="0" role="group" aria-label="Table">').startswith(begins)


def test_an_item_has_a_bullet_but_where_its_own_text_is_above_the_excerpt() -> None:
    assert "<li>One\n<ul>" in shown("- One\n  - Two\n")
    assert '<li class="empty">\n<ul>' in shown("- One\n  - Two\n", shown=(1, None))


def test_an_excerpt_ends_with_a_whole_block() -> None:
    lines = PAGE.split("\n")
    first = lines.index("| 1900 | much |")
    rows = shown(PAGE, shown=(first, first + 1))
    assert re.findall(r"<t[hd].*?>(.*?)</t", rows) == ["year", "rain", "1900", "much"]
    code = lines.index("first()")
    assert re.findall(r"(?s)<code>(.*?)</code>", shown(PAGE, shown=(code, code + 1))) == ["first()\n\nsecond()"]
    item = lines.index("4. four")
    assert shown(PAGE, shown=(item, item + 1)).endswith('<ol start="4">\n<li>\n<p>four</p>\n</li>\n</ol>\n')


@pytest.mark.parametrize(
    ("lines", "first", "last"), [((51, None), 50, 99), ((51, 54), 50, 52), ((0, 4), 0, 2), ((0, None), 0, 99)]
)
def test_of_a_long_block_of_code_an_excerpt_shows_its_own_lines(
    lines: tuple[int, int | None], first: int, last: int
) -> None:
    made = shown("```c\n" + "".join(f"line{n}\n" for n in range(100)) + "```\n", shown=lines)
    code = "\n".join(f"line{n}" for n in range(first, last + 1))
    assert f"<code>{code}</code>" in made


def test_a_picture_is_shown_where_it_is_found_and_named_elsewhere() -> None:
    def picture(source: str, by_name: bool) -> Picture | None:
        size = (30, 20) if by_name else None
        return Picture(f"/picture?name={source},{by_name}", size) if source.startswith("a ") else None

    made = shown("![A <dog>](a%20dog.png?x#y) ![[a cat.png|300]] ![far](https://e.example/a%20d.png)", picture=picture)
    assert re.findall(r'<img src="(.*?)" alt="(.*?)"', made) == [
        ("/picture?name=a dog.png,False", "A &lt;dog&gt;"),
        ("/picture?name=a cat.png,True", "a cat.png"),
    ]
    assert made.count(' width="30" height="20" loading="lazy"') == 1, "its room is kept where its size is known"
    assert made.count('class="picture"') == 1, "a picture of another place is named alone"


def test_pictures_are_looked_for_in_the_folder_alone(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for name in ("a/b/p.png", "attachments/q.png", "../out.png", "a/n.txt"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_bytes(b"x")

    def found(source: str, *, by_name: bool = False) -> str:
        return locate_picture(str(docs), "a/note.md", source, by_name=by_name)

    assert found("b/p.png") == found("./b/../b/p.png") == found("/a/b/p.png") == "a/b/p.png"
    assert found("q.png", by_name=True) == "attachments/q.png"
    for name in ("q.png", "../../out.png", "/../out.png", "n.txt", "p\0.png", "b\\p.png", "..png"):
        assert found(name) == "", name
