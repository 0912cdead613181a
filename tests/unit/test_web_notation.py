"""What notes have beside CommonMark, as the page shows it: callouts, tasks, footnotes, math, pictures."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.serving.web.notation import write_formula
from retriever.serving.web.pictures import locate_picture
from retriever.serving.web.render import RenderOptions, render_markdown


def shown(markdown: str, **around: object) -> str:
    return render_markdown(markdown, RenderOptions(**around))  # type: ignore[arg-type]  # whatever the fields hold


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        (
            "> [!warning] Mind *the* gap\n> It is wide.\n",
            '<div class="callout doubt" role="note">\n<p class="title">Mind <em>the</em> gap</p>\n'
            "<p>It is wide.</p>\n</div>\n",
        ),
        ("> [!note]\n", '<div class="callout note" role="note">\n<p class="title">Note</p>\n</div>\n'),
        (
            "> [!faq]- Why?\n>\n> So.\n",
            '<details class="callout doubt">\n<summary>Why?</summary>\n<p>So.</p>\n</details>\n',
        ),
        ("> [!tip]+ T\n", '<details class="callout tip" open>\n<summary>T</summary>\n</details>\n'),
        (
            ":material-check:{ .green } Yes, see [it](https://example.org){ .md-button } {a}\n",
            '<p> Yes, see <a href="https://example.org" rel="noreferrer noopener" class="outside">it</a> {a}</p>\n',
        ),
        ("> a quote\n", "<blockquote>\n<p>a quote</p>\n</blockquote>\n"),
        (
            "- [ ] buy\n- [x] **sell**\n- [y] no task\n",
            '<ul>\n<li><span class="task" role="img" aria-label="to do">\u2610</span> buy</li>\n'
            '<li><span class="task" role="img" aria-label="done">\u2611</span> <strong>sell</strong></li>\n'
            "<li>[y] no task</li>\n</ul>\n",
        ),
        (
            "One[^a] and two[^b], none[^c].\n\n[^b]: Second *note*.\n[^a]: First\n    goes on.\n",
            '<p>One<sup class="footnote" title="First\ngoes on.">1</sup> and two'
            '<sup class="footnote" title="Second *note*.">2</sup>, none[^c].</p>\n'
            '<ol class="footnotes">\n<li>First\ngoes on.</li>\n<li>Second <em>note</em>.</li>\n</ol>\n',
        ),
        ("It is $E = mc^2$.", '<p>It is <span class="math" title="E = mc^2">E = mc<sup>2</sup></span>.</p>\n'),
        ("It costs $5 or $6, US$7.", "<p>It costs $5 or $6, US$7.</p>\n"),
        ("`$x$` and \\$x$", "<p><code>$x$</code> and $x$</p>\n"),
        ("$$\n\\frac{a+b}{2}\n$$\n", '<div class="math block" title="\\frac{a+b}{2}">(a+b)/2</div>\n'),
        ("$\\unknown{x}$", '<p><span class="math"><code>\\unknown{x}</code></span></p>\n'),
        ("$$ not closed\n\ntext\n", "<p>$$ not closed</p>\n<p>text</p>\n"),
    ],
)
def test_what_notes_have_beside_commonmark(markdown: str, html: str) -> None:
    assert shown(markdown) == html


@pytest.mark.parametrize(
    ("latex", "html"),
    [
        (r"\alpha_1 \leq \sqrt{x+1}", "\u03b1<sub>1</sub> \u2264 \u221a(x+1)"),
        (r"\sum_{i=1}^{n} x_i", "\u2211<sub>i=1</sub><sup>n</sup> x<sub>i</sub>"),
        (r"\text{if } a < b \\ \mathbf{R} \to \infty", "if  a &lt; b <br> R \u2192 \u221e"),
        (r"\left( \hat{y} - y \right)", "( y\u0302 \u2212 y )"),
        (r"f'(x) \in \{1, 2\}", "f\u2032(x) \u2208 {1, 2}"),
        (r"\begin{matrix} a \end{matrix}", None),
        ("x^", None),
        ("{" * 50, None),
        ("}", None),
    ],
)
def test_a_formula_is_text(latex: str, html: str | None) -> None:
    assert write_formula(latex) == html


@given(st.text(st.sampled_from("<>[]()!\"'`*_#|-:&;\\ \n\tonx=/a1$^{}+"), max_size=60))
def test_no_notation_makes_an_element_of_a_documents_own(markdown: str) -> None:
    for text in (markdown, f"> [!a]- {markdown}", f"- [ ] {markdown}\n\na[^1]\n\n[^1]: {markdown}", f"$${markdown}$$"):
        made = shown(text)
        names = set(re.findall(r"<\s*/?\s*([A-Za-z][^\s/>]*)", made))
        known = "p h2 h3 h4 h5 h6 pre code span a em strong s ul ol li br hr blockquote div table thead tbody tr th td"
        assert names <= {*known.split(), "sup", "sub", "details", "summary"}
        assert not re.search(r"<[^>]*\s(on\w+|style|id|src)=", made)


@pytest.mark.parametrize("text", ["$" * 9_000, "[^1]: " * 3_000, "> [!a] " * 2_000, "- [ ] " * 2_000, "$$\n" * 5_000])
def test_hostile_notation_costs_no_more_than_other_text(text: str) -> None:
    shown(text)


def test_a_picture_is_shown_where_it_is_found_and_named_elsewhere() -> None:
    def picture(source: str, by_name: bool) -> str | None:
        return f"/picture?name={source},{by_name}" if source.startswith("a ") else None

    made = shown("![A <dog>](a%20dog.png?x#y) ![[a cat.png|300]] ![far](https://e.example/a%20d.png)", picture=picture)
    assert re.findall(r'<img src="(.*?)" alt="(.*?)"', made) == [
        ("/picture?name=a dog.png,False", "A &lt;dog&gt;"),
        ("/picture?name=a cat.png,True", "a cat.png"),
    ]
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
    assert found("q.png") == ""
    assert [found(name) for name in ("../../out.png", "/../out.png", "n.txt", "p\0.png", "b\\p.png", "..png")] == [
        ""
    ] * 6
