"""Names of sections, and which section stands for one without text."""

from pageindex.document import find_holders, parse_document
from retriever.lexical.sections import names_of_nodes, spell_code, spell_name


def test_how_a_file_is_called() -> None:
    document = parse_document(
        "notes/leave-policy.md", "---\naliases: [Time off]\n---\n# Vacation\n\n## 1.2 Carry over\n\nx\n"
    )
    names = names_of_nodes(document)
    assert {spell_name(name) for name in ("leave policy", "time off", "vacation")} <= names["notes/leave-policy.md"]
    assert spell_name("carry over") in names["notes/leave-policy.md#vacation/12-carry-over"]


def test_a_number_is_a_name_where_others_have_its_form() -> None:
    text = "# Rules\n\n## § 9 Rooms\n\nx\n\n# More\n\n## § 10 Keys\n\nx\n\n## Our 3 rooms\n\nx\n"
    names = names_of_nodes(parse_document("rules.md", text))
    assert names["rules.md#more/-10-keys"] == {spell_name(name) for name in ("§ 10 Keys", "§ 10", "Keys")}
    assert names["rules.md#more/our-3-rooms"] == {spell_name("Our 3 rooms")}
    assert spell_name("Sums") in names_of_nodes(parse_document("a.md", "# 3.2 Sums\n\nx\n"))["a.md"]


def test_a_function_is_called_so_without_its_arguments() -> None:
    text = "# Files\n\n## `fs.access(path[, mode], callback)`\n\nx\n\n## Install (Linux)\n\nx\n"
    names = names_of_nodes(parse_document("fs.md", text))
    called = names["fs.md#files/fsaccesspath-mode-callback"]
    assert {spell_code(name) for name in ("fs.access", "fs.access()", "FS.Access")} <= called
    assert {spell_name(name) for name in ("fs access", "fs.access(path, mode, callback)")} <= called
    assert names["fs.md#files/install-linux"] == {spell_name("install linux")}


def test_the_first_text_below_or_above_stands_for_a_bare_heading() -> None:
    text = (
        "# Top\n\n<!-- nothing -->\n\n## One\n\n### Deep\n\nText.\n\n## Two\n\n[label]: http://x.example\n\n"
        "Three\n-----\n\nText.\n\n### Empty\n"
    )
    assert find_holders(parse_document("a.md", text).nodes) == {
        "a.md": "a.md#top/one/deep",
        "a.md#top": "a.md#top/one/deep",
        "a.md#top/one": "a.md#top/one/deep",
        "a.md#top/two": "a.md#top/one/deep",
        "a.md#top/three/empty": "a.md#top/three",
    }


def test_a_document_of_headings_alone_is_shown_as_it_is() -> None:
    holders = find_holders(parse_document("a.md", "# Groceries\n\n## Milk\n\n## Eggs\n").nodes)
    assert holders == {"a.md": "a.md#groceries"}, "a file without lines of its own is cited by its first heading"
    assert find_holders(parse_document("a.md", "").nodes) == find_holders(parse_document("a.md", "Milk\n").nodes) == {}
