import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Span
from retriever.searching.citations import Anchor, find_anchor
from retriever.text import SNIPPET_CHARS, cut, snippet


def words_of(text: str) -> list[str]:
    return text.lower().replace(".", "").split()


def test_a_short_passage_is_shown_whole_code_and_tables_where_there_is_no_prose() -> None:
    assert snippet("## Colours\n\nRed is warm.\n\nBlue is cold.\n", {"blue"}, words_of) == "Red is warm. Blue is cold."
    assert snippet("## Colours\n", {"colours"}, words_of) == ""
    assert snippet(":material-check:{ .green } Blue, `:simple-x:`.\n", {"blue"}, words_of) == "Blue, :simple-x:."
    assert snippet("", {"blue"}, words_of) == ""
    text = "Some prose.\n\n```sh\nrun --blue now\n```\n"
    assert snippet(text, {"--blue"}, words_of) == "Some prose. run --blue now"
    assert snippet(text, {"prose"}, words_of) == "Some prose."
    assert snippet("| a | b |\n|---|:-:|\n| 1 | 2 |\n", {"else"}, words_of) == "a · b; 1 · 2"
    assert snippet("## A heading\n", {"heading"}, words_of) == ""


def test_a_long_passage_begins_at_the_sentence_that_matched() -> None:
    text = "Nothing is said here at all. " * 12 + "Blue is cold. " + "And so on. " * 40
    shown = snippet(text, {"blue"}, words_of)
    assert shown.startswith("… Blue is cold. And so on.")
    assert shown.endswith("…")
    assert len(shown) <= SNIPPET_CHARS + 2
    assert snippet(text, {"yellow"}, words_of).startswith("Nothing is said")


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("| Option | Meaning |\n|---|:-:|\n| `-x` | A **blue** [door](d.md) |\n", "Option · Meaning; -x · A blue door"),
        ("Do this:\n\n```sh title=x\n# blue\nrun `--now`\n```\n", "Do this: # blue run `--now`"),
        ("---\ntitle: Hello\ntags: [blue]\n---\n\nA *blue* text.\n", "A blue text."),
        ("> [!warning]- Mind the gap\n> It is **blue**.\n", "Mind the gap: It is blue."),
        ('!!! note "Take care"\n    The *blue* oven.\n', "Take care: The blue oven."),
        (":::tip\nThe *blue* oven.\n:::\n", "Tip: The blue oven."),
        ('<div class="x">\n<p>Some <b>blue</b><br/>text &amp; more</p>\n</div>\n', "Some blue text & more"),
        ('import X from "y"\n\n<Tabs items={["a"]}>\n<Tab>The blue `Vec<T>`</Tab>\n</Tabs>', "The blue Vec<T>"),
        ("- [ ] a **blue** box\n- [x] ~~eggs~~ [[Note|label]] ![seen](x.png)\n", "a blue box eggs label"),
        (
            "{{< note >}}\nA ==blue== box[^1] <!-- hidden -->here. ^id\n\n[^1]: The note.\n",
            "A blue box here. The note.",
        ),
        ("1. A [blue][ref] box\n\n[ref]: http://example.com\n", "A blue box"),
        ("A blue text.\n\n<!-- cut in the middle,\n  - blue: 1\n", "A blue text."),
    ],
)
def test_a_snippet_is_what_a_page_shows(markdown: str, shown: str) -> None:
    assert snippet(markdown, {"blue"}, words_of) == shown


def test_links_whose_definition_is_elsewhere_are_shown_as_their_text() -> None:
    passage = "See [`fs.open()`][] and [the *other* page][other]; not [optional], `rows[i][j]` or f(x)[i][j]."
    assert (
        snippet(passage, set(), words_of)
        == "See fs.open() and the other page; not [optional], rows[i][j] or f(x)[i][j]."
    )


def test_cut_at_a_word() -> None:
    assert cut("one two three", 13) == "one two three"
    assert cut("one two three", 12) == "one two…"
    assert cut("one two three", 8) == "one two…"
    assert cut("one\ntwo three", 8) == "one\ntwo…"
    assert cut("onetwothree", 6) == "onetw…"
    assert cut("a bcdefghij", 8) == "a bcdef…"  # a word's end too near the beginning would leave nothing
    assert cut("one", 1) == cut("one", 0) == ""


@given(st.text(max_size=60), st.integers(0, 70))
def test_a_cut_text_is_a_beginning_and_no_longer_than_asked(text: str, length: int) -> None:
    shown = cut(text, length)
    assert len(shown) <= length or shown == text == ""
    assert shown == text if len(text) <= length else text.startswith(shown.removesuffix("…"))


PAGE = "# Mail\n\nLetters.\n\n## Stamps\n\nA stamp pays.\n\n## Parcels\n\nA parcel is weighed.\n"
STAMPS = (Span(5, 8), "## Stamps\n\nA stamp pays.\n\n")
PARCELS = (Span(9, 11), "## Parcels\n\nA parcel is weighed.\n")


@pytest.mark.parametrize(
    ("now", "section", "expected"),
    [
        (PAGE, STAMPS, Anchor(Span(5, 8), "exact")),
        (PAGE + "\n## More\n\nText.\n", PARCELS, Anchor(Span(9, 11), "exact")),
        ("Before.\n\n" + PAGE, STAMPS, Anchor(Span(7, 10), "moved")),
        ("Before.\n" + PAGE.rstrip("\n"), PARCELS, Anchor(Span(10, 12), "moved")),
        (PAGE.replace("A stamp pays", "Nothing pays"), STAMPS, Anchor(Span(5, 8), "stale")),
        ("Before.\n" + PAGE + "\n" + PAGE, STAMPS, Anchor(Span(5, 8), "stale")),
        (PAGE + "\n" + PAGE, STAMPS, Anchor(Span(5, 8), "exact")),
        ("", STAMPS, Anchor(Span(5, 8), "stale")),
        ("x## Stamps\n\nA stamp pays.\n\n", STAMPS, Anchor(Span(5, 8), "stale")),
        (PAGE, (Span(20, 21), "\n\n"), Anchor(Span(20, 21), "stale")),
    ],
    ids=[
        "as it was", "more below", "lines above", "no line end", "other words", "twice, and moved",
        "twice, and in place", "empty file", "half a line", "blank lines are everywhere",
    ],
)  # fmt: skip
def test_where_a_section_is(now: str, section: tuple[Span, str], expected: Anchor) -> None:
    assert find_anchor(*section, now) == expected


LINES = st.lists(st.sampled_from(["", "a", "b", "# a", "a b"]), min_size=1, max_size=8)


@given(LINES, LINES, LINES)
def test_what_is_cited_as_exact_or_moved_holds_the_text(above: list[str], section: list[str], below: list[str]) -> None:
    now = "\n".join([*above, *section, *below]) + "\n"
    found = find_anchor(Span(3, 2 + len(section)), "\n".join(section) + "\n", now)
    if found.state != "stale":
        assert now.split("\n")[found.span.first - 1 : found.span.last] == section
    elif any(section):
        places = [at for at in range(len(above) + len(below) + 1) if now.split("\n")[at : at + len(section)] == section]
        assert len(places) != 1
