"""Files that were edited after they were indexed, with nothing indexed again: whatever cites lines tells the truth."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.display import CITATION_STATES
from retriever.errors import UsageError
from tests.program import Cli
from tests.real.served import Faces, faces_of, indexed
from tests.shelf import NEVER_REFRESH, PAGES, WORDS_ALONE, Shelf, read_lines

QUESTION = "which stamp pays for the journey?"
STAMPS = "mail.md#mail/stamps"
MAIL = PAGES["mail.md"]


def edited(docs: Path, state: str) -> None:
    path = docs / "mail.md"
    if state == "gone":
        path.unlink()
        return
    contents = {
        "exact": f"{MAIL}\n## Letters\n\nMore below.\n",
        "moved": f"Before.\n\n{MAIL}",
        "stale": MAIL.replace("A stamp pays", "Nobody pays"),
    }
    path.write_text(contents[state], encoding="utf-8")


EDITS = pytest.mark.parametrize(
    ("state", "lines"), [("exact", "5-8"), ("moved", "7-10"), ("stale", "5-8"), ("gone", "5-8")]
)


@pytest.fixture
def faces(tmp_path: Path) -> Iterator[Faces]:
    """The pages are found by words alone, and never indexed again."""
    with faces_of(indexed(tmp_path, PAGES, WORDS_ALONE), NEVER_REFRESH) as faces:
        yield faces


@EDITS
def test_a_context_and_a_section_cite_the_lines_where_the_text_is_now(shelf: Shelf, state: str, lines: str) -> None:
    edited(shelf.docs, state)
    with shelf.open(**NEVER_REFRESH, top_k=1) as retriever:
        context = retriever.context(QUESTION).context
        passage = retriever.read(STAMPS)
        cited = retriever.read(retriever.search(QUESTION).hits[0].citation)
    (piece,) = context.pieces
    for found in (piece, passage):
        assert (found.citation, found.citation_state) == (f"mail.md:{lines}", state)
        assert found.text == "## Stamps\n\nA stamp pays for the journey of a letter.\n\n"
    if state in ("exact", "moved"):
        assert piece.text == read_lines(piece.folder, piece.file, piece.span.first, piece.span.last)
        assert cited.text == passage.text, "what a hit cites is what is read there"
    assert (cited.citation, cited.citation_state) == (f"mail.md:{lines}", "gone" if state == "gone" else "exact")
    for name, said in CITATION_STATES.items():
        assert (bool(said) and said in context.markdown) == (state == name != "exact")


def test_what_moved_is_not_joined_with_what_went_stale(shelf: Shelf) -> None:
    """The first section shrinks: its old lines overlap the new ones of those below it."""
    changed = MAIL.replace("\n\nHow letters leave the house.\n\n", "\n\n", 1)
    shelf.write("mail.md", changed)
    with shelf.open(**NEVER_REFRESH, top_k=3) as retriever:
        context = retriever.context("stamps and parcels of mail").context
    pieces = [piece for piece in context.pieces if piece.file == "mail.md"]
    assert {piece.citation_state for piece in pieces} == {"stale", "moved"}
    for piece in pieces:
        if piece.citation_state == "moved":
            assert piece.text == read_lines(piece.folder, "mail.md", piece.span.first, piece.span.last)
        else:
            assert piece.text in MAIL


def test_a_cut_of_a_moved_section_and_what_is_left_out_have_the_new_lines(tmp_path: Path) -> None:
    story = "# Ships\n\n" + "".join(
        f"Ship {number} carries {'a walrus' if number == 70 else 'coal'}.\n\n" for number in range(120)
    )
    shelf = Shelf(tmp_path, {"ships.md": story, "more.md": "# More\n\n" + "A walrus and coal. " * 200 + "\n"})
    shelf.update()
    for name in ("ships.md", "more.md"):
        shelf.write(name, "New.\n\n" + (shelf.docs / name).read_text(encoding="utf-8"))
    with shelf.open(**NEVER_REFRESH, top_k=2) as retriever:
        context = retriever.context("a walrus", max_tokens=400).context
    (piece,) = context.pieces
    assert (piece.citation_state, str(piece.cut_from)) == ("moved", "3-244")
    assert piece.text == read_lines(piece.folder, piece.file, piece.span.first, piece.span.last)
    (left_out,) = context.left_out
    assert left_out.citation == "more.md:3-5"
    assert context.markdown.count(CITATION_STATES["moved"]) == 1


def test_a_file_and_its_lines_are_read_as_they_are(shelf: Shelf) -> None:
    shelf.write("mail.md", "# Other\n\nWords.")
    with shelf.open(**NEVER_REFRESH) as retriever:
        assert retriever.read("mail.md").text == "# Other\n\nWords.\n"
        assert (retriever.read("mail.md:3").text, retriever.read("mail.md:3").node_id) == ("Words.\n", "mail.md")
        with pytest.raises(UsageError, match="has the lines 1-3, not 3-4"):
            retriever.read("mail.md:3-4")
        shelf.write("mail.md", "")
        with pytest.raises(UsageError, match="is empty"):
            retriever.read("mail.md")


def test_a_folder_that_became_a_link_to_elsewhere_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (shelf.docs / "garden").rename(elsewhere)
    (elsewhere / "bees.md").write_text("# Secret\n\nNobody may read this.\n", encoding="utf-8")
    (shelf.docs / "garden").symlink_to(elsewhere, target_is_directory=True)
    with shelf.open(**NEVER_REFRESH) as retriever:
        passage = retriever.read("garden/bees.md")
    assert (passage.text, passage.citation_state) == (PAGES["garden/bees.md"], "gone")


@EDITS
def test_every_face_says_it(faces: Faces, tmp_path: Path, state: str, lines: str, cli: Cli) -> None:
    edited(tmp_path / "docs", state)
    node = STAMPS.replace("#", "%23")
    replies = {
        "answer": faces.web.get(f"/?question={QUESTION}").text,
        "page": faces.web.get(f"/read?node={node}").text,
        "search": faces.tell("search", question=QUESTION, top_k=1),
        "read": faces.tell("read", place=STAMPS),
        "related": faces.tell("related", place=STAMPS).partition("\n")[0],
        "command": cli("read", STAMPS, "--index", tmp_path / "index").err,
    }
    for face, reply in replies.items():
        assert f"mail.md:{lines}" in reply, face
        said = [name for name, words in CITATION_STATES.items() if words and words in reply]
        assert said == [name for name in [state] if name != "exact"], face
    opened = f'/docs/mail.md:{lines.split("-")[0]}"'
    assert (opened in replies["page"]) == (state != "gone"), "the editor opens what is there"
    found = faces.web.get(f"/api/node?reference={node}").json()
    assert (found["citation"], found["citation_state"]) == (f"mail.md:{lines}", state)


def test_a_long_section_whose_property_answers_is_quoted_from_its_beginning(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {"oven.md": "---\nheat: 220\n---\n# Oven\n\n" + "It is hot.\n\n" * 400})
    shelf.update()
    with shelf.open(top_k=1) as retriever:
        context = retriever.context("heat", max_tokens=300).context
    assert [piece.span.first for piece in context.pieces] == [4]
    assert "` `Oven` `heat: 220`, cut: the section" in context.markdown
