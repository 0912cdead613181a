"""Indexing touches only what changed; whatever fails on the way leaves the index as it was, and nothing is lost."""

from pathlib import Path

import numpy as np
import pytest

from retriever.api import index_folders
from retriever.errors import DocumentsError, EncoderError
from retriever.indexing.changes import name_folders_apart
from retriever.places import open_store
from retriever.store.reading import StoredFolder
from retriever.upkeep import examine_index
from tests.shelf import (
    NEVER_REFRESH,
    PAGES,
    QUESTIONS,
    CountingEncoder,
    Interrupting,
    Shelf,
    WrongEncoder,
    found,
    same_hits,
)


def counted(shelf: Shelf) -> tuple[int, ...]:
    """The counts of an update: (added, changed, removed, unchanged, embedded), without the snapshot."""
    before = shelf.encoder.encoded
    report = shelf.update()
    assert shelf.encoder.encoded - before == report.embedded
    return report.added, report.changed, report.removed, report.unchanged, report.embedded


def test_only_what_changed_is_touched(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    report = shelf.update()
    assert (report.added, report.embedded, report.chunks, shelf.encoder.encoded) == (4, 8, 8, 8)
    first = shelf.chroma
    assert counted(shelf) == (0, 0, 0, 4, 0)
    assert shelf.chroma == first
    shelf.write("mail.md", PAGES["mail.md"].replace("by train", "by ship"))
    assert counted(shelf) == (0, 1, 0, 3, 1)
    assert shelf.chroma != first
    assert "by ship" in shelf.ask("parcel by ship").hits[0].text
    shelf.write("new.md", "# Otters\n\nAn otter sleeps.\n\n## Food\n\nFish.\n")
    assert counted(shelf) == (1, 0, 0, 4, 2)
    assert shelf.ask("otter").hits[0].citation == "new.md:1-4"
    (shelf.docs / "kitchen.md").unlink()
    assert counted(shelf) == (0, 0, 1, 4, 0)


def test_a_text_is_embedded_once_ever(shelf: Shelf) -> None:
    shelf.write("copy/mail.md", PAGES["mail.md"])
    assert counted(shelf) == (1, 0, 0, 4, 0)
    (shelf.docs / "copy" / "mail.md").unlink()
    (shelf.docs / "mail.md").unlink()
    assert counted(shelf) == (0, 0, 2, 3, 0)
    shelf.write("back/mail.md", PAGES["mail.md"])
    assert counted(shelf) == (1, 0, 0, 3, 0)
    twins = {f"{number}/twin.md": "# Twin\n\nThe same words twice.\n" for number in range(2)}
    for name, text in twins.items():
        shelf.write(name, text)
    assert counted(shelf) == (2, 0, 0, 4, 1)


def test_other_chunk_settings_make_all_chunks_anew_and_embed_new_texts_alone(shelf: Shelf, tmp_path: Path) -> None:
    long = (
        "# Long\n\n"
        + "\n\n".join(f"Paragraph {number} says something of its own, and of nobody else." for number in range(6))
        + "\n"
    )
    shelf.write("long.md", long)
    assert shelf.update().embedded == 1
    small = {"encoder": {"max_tokens": 21}}
    report = shelf.update(settings=small)
    assert (report.changed, report.embedded, report.chunks) == (5, 6, 8 + 6)
    fresh = tmp_path / "fresh"
    shelf.update(index=fresh, settings=small)
    for question in (*QUESTIONS, "paragraph 3"):
        assert same_hits(found(shelf.ask(question)), found(shelf.ask(question, index=fresh)))
    back = shelf.update()
    assert (back.changed, back.embedded, back.chunks) == (5, 0, 9)


def test_what_is_no_vector_is_never_stored(shelf: Shelf) -> None:
    shelf.write("new.md", "# Otters\n\nAn otter sleeps.\n")
    with pytest.raises(EncoderError):
        shelf.update(encoder=WrongEncoder(np.full((1, 64), np.nan, np.float32)))
    with shelf.rows() as rows:
        assert rows.execute("SELECT count(*) FROM vectors").fetchone() == (8,)
    assert shelf.update().embedded == 1
    assert shelf.ask("otter").degraded == ()


def test_of_several_folders_each_has_a_prefix(shelf: Shelf, tmp_path: Path) -> None:
    ids = {hit.node_id for hit in shelf.ask("tomatoes", top_k=100).hits}
    second, third = Shelf(tmp_path / "x", {"mail.md": "# Owls\n\nAn owl carries mail.\n"}), Shelf(tmp_path / "y")
    third.write("a.md", "# Deer\n\nA deer carries nothing.\n")
    report = shelf.update(second.docs, third.docs)
    assert report.folders == tuple(str(folder) for folder in (shelf.docs, second.docs, third.docs))
    assert (report.added, report.changed, report.embedded) == (2, 4, 2), "the ids of the first folder are others now"
    first = f"{shelf.place.name}/docs:"
    assert {f"{first}{node_id}" for node_id in ids} < {hit.node_id for hit in shelf.ask("tomatoes", top_k=100).hits}
    owl = shelf.ask("owl").hits[0]
    assert (owl.node_id, owl.folder, owl.citation) == ("x/docs:mail.md#owls", str(second.docs), "x/docs:mail.md:1-3")
    shelf.write("mail.md", "# Mail\n\nNothing is left.\n")
    third.write("a.md", "# Deer\n\nA deer sleeps.\n")
    report = shelf.update(second.docs)  # which looks at all of them
    assert (report.changed, report.unchanged, report.embedded) == (2, 4, 2)


def test_links_follow_what_comes_and_goes(shelf: Shelf) -> None:
    def links() -> list[tuple[str | None, str | None]]:
        with shelf.rows() as rows:
            return rows.execute("SELECT target_id, problem FROM links").fetchall()

    whole = [("garden/tomatoes.md#tomatoes/blight", None)]
    assert links() == whole
    (shelf.docs / "garden/tomatoes.md").rename(shelf.docs / "garden/red.md")
    shelf.update()
    assert links() == [(None, "no such document")]
    with shelf.open() as retriever:
        assert len(retriever.status().broken_links) == 1
    (shelf.docs / "garden/red.md").rename(shelf.docs / "garden/tomatoes.md")
    shelf.update()
    assert links() == whole


@pytest.mark.parametrize(
    ("stage", "at"), [("reading", 0), ("reading", 1), ("indexing words", 0), ("indexing words", -1)]
)
def test_an_interrupt_leaves_the_older_state_in_force(shelf: Shelf, stage: str, at: int) -> None:
    before = found(shelf.ask(QUESTIONS[1]))
    shelf.write("garden/tomatoes.md", "# Tomatoes\n\nNothing of them in a wet summer.\n")
    with pytest.raises(KeyboardInterrupt):
        shelf.update(progress=Interrupting(stage, at))
    answer = shelf.ask(QUESTIONS[1], **NEVER_REFRESH)
    assert (found(answer), answer.degraded) == (before, ())
    assert shelf.update().changed == 1
    assert shelf.encoder.encoded == 1


def test_another_model_behind_the_same_name_is_noticed_by_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path, PAGES)
    served = {"encoder": {"kind": "ollama", "model": "m"}}
    models = [CountingEncoder(fingerprint=digit * 16) for digit in "ab"]
    for model, embedded in ((models[0], 8), (models[0], 0), (models[1], 8), (models[1], 0), (models[0], 8)):
        monkeypatch.setattr("retriever.indexing.update.open_encoder", lambda *_, model=model: model)
        assert index_folders([shelf.docs], shelf.index, settings=served).embedded == embedded
        assert shelf.ask(QUESTIONS[0], encoder=model).degraded == ()

    class Asleep:
        @property
        def fingerprint(self) -> str:
            raise EncoderError("the server is asleep")

    monkeypatch.setattr("retriever.indexing.update.open_encoder", lambda *_: Asleep())
    assert index_folders([shelf.docs], shelf.index, settings=served).unchanged == 4  # nothing is needed of it


@pytest.mark.parametrize("what", ["missing", "empty", "a file", "no documents"])
def test_a_folder_without_documents_is_an_error_and_nothing_is_made(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "folder"
    if what == "a file":
        folder.write_text("# A\n", encoding="utf-8")
    elif what != "missing":
        folder.mkdir()
        if what == "no documents":
            (folder / "picture.png").write_bytes(b"PNG")
    shelf = Shelf(tmp_path / "x", PAGES)
    with pytest.raises(DocumentsError, match="folder"):
        shelf.update(shelf.docs, folder)
    assert not shelf.index.exists()


# Another embedding model: words answer until everything is embedded, and no vectors of two models are mixed.


def test_a_change_of_the_model_that_is_interrupted_goes_on_and_embeds_nothing_twice(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.indexing.update.TEXTS_AT_ONCE", 2)
    again = CountingEncoder(fingerprint="0f" * 8)
    with pytest.raises(KeyboardInterrupt):
        shelf.update(encoder=again, progress=Interrupting("embedding", 4))
    answer = shelf.ask("which stamp pays for a letter?", encoder=again)
    assert (answer.hits[0].node_id, answer.index.embedded_share) == ("mail.md#mail/stamps", 4 / 8)
    assert "of the texts are embedded so far" in str(answer.degraded[0])
    assert (shelf.update(encoder=again).embedded, again.encoded) == (4, 8)
    assert shelf.ask("which stamp pays for a letter?", encoder=again).degraded == ()
    with shelf.rows() as rows:
        # What the other model made of the texts is gone.
        assert rows.execute("SELECT count(DISTINCT fingerprint) FROM vectors").fetchone() == (1,)
    assert not [item for item in examine_index(open_store(shelf.index)) if item.level == "problem"]


def test_folders_of_one_name_are_told_apart_by_what_is_above_them() -> None:
    folders = [StoredFolder(0, path, "", "") for path in ("/a/docs", "/b/docs", "/docs")]
    assert [folder.prefix for folder in name_folders_apart(folders)] == ["a/docs:", "b/docs:", "docs~2:"]
