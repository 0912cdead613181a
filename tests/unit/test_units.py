"""What a section is cut into, and what of it is shown."""

import pytest

from pageindex.document import parse_document
from pageindex.node import Span
from pageindex.units import LONG_BLOCK, Unit, split_text, split_units

PAGE = """\
---
title: Backups
owner: Ada
tags:
  - disks
---

Each night the disks are copied.

**snapshot**: the files of one run

The settings are as follows

- `keep`: how many are kept
  - Default: 7
- where they go

| | meaning | when |
|---|---|---|
| full | everything | |
| delta | | daily |

Restore with this command:

{{< highlight sh >}}
[[restore]]
{{< /highlight >}}

<!-- not seen -->

**Before it**:

> Ask Ada first.

Prune
: removes what nobody needs
"""


def test_what_an_item_or_a_single_row_says_of_one_key_is_a_unit() -> None:
    items = "- Default:\n  - in CI: on\n  - else: off\n- Type: flag\n"
    below = "| Default | CLI |\n|---|---|\n| 80 | `--width` |\n\n- a\n- **Env:**\n\n```js\n[1]\n```\n"
    found = [
        describe(unit) for unit in split_text(f"{items}\n{below}\n**{'Why' * 30}?**\n\nSo.\n\n1. Ways:\n- one\n", 1)
    ]
    assert "property 1-3 Default| Default: in CI: on; else: off" in found
    assert found[-8:-6] == ["property 8 Default| Default: 80", "property 8 CLI| CLI: --width"]
    assert found[-5:-3] == ["item 10 | a", "code 11-15 Env| Env: / [1]"]
    assert [found[-3][-10:], found[-1]] == ["Why? / So.", "item 21-22 | Ways: / one"]
    assert describe(split_text("- Default:\n" + "  - more\n" * LONG_BLOCK, 1)[1]) == "property 1 Default| Default:"


def test_a_section_is_cut_into_units() -> None:
    assert [describe(unit) for unit in split_units(parse_document("backups.md", PAGE).nodes[0].node)] == [
        "field 3 owner| owner: Ada",
        "field 4-5 tags| tags: disks",
        "paragraph 8 | Each night the disks are copied.",
        "definition 10 snapshot| snapshot: the files of one run",
        "paragraph 12 | The settings are as follows",
        "list 12-16 | The settings are as follows / keep: how many are kept; Default: 7; where they go",
        "definition 14 keep| The settings are as follows / keep: how many are kept",
        "property 15 Default| The settings are as follows keep: how many are kept / Default: 7",
        "item 16 | The settings are as follows / where they go",
        "list 18-21 | \u2013 \u00b7 meaning \u00b7 when / full \u00b7 everything; delta \u00b7 \u2013 \u00b7 daily",
        "row 20 full|  \u00b7 meaning / full \u00b7 everything",
        "row 21 delta|  \u00b7 when / delta \u00b7 daily",
        "code 23-27 | Restore with this command: / [[restore]]",
        "quote 31-33 | Before it: / Ask Ada first.",
        "definition 35-36 Prune| Prune: removes what nobody needs",
    ]
    assert split_units(parse_document("a.md", "---\ntags: []\n---\n").nodes[0].node) == ()


def describe(unit: Unit) -> str:
    return f"{unit.kind.value} {unit.span} {unit.term}| {unit.lead}{' / ' if unit.lead else ''}{unit.text}"


def test_long_code_is_cut_at_blank_lines_but_not_within_a_function() -> None:
    settings = "".join(f"# What {number} is for.\nsetting_{number} = {number}\n\n" for number in range(9))
    units = split_text(f"The settings:\n\n```toml\n{settings}```\n", 1)
    assert [describe(unit) for unit in units[:2]] == [
        "code 1-5 | The settings: / # What 0 is for. setting_0 = 0",
        "code 7-8 | # What 1 is for. setting_1 = 1",
    ]
    assert (len(units), units[-1].text) == (9, "# What 8 is for. setting_8 = 8")
    shown = "export function Page() {\n  const user = read()\n\n  return <p>{user}</p>\n}\n\n"
    assert [str(unit.span) for unit in split_text(f"```jsx\n{shown * 4}```\n", 1)] == ["1-6", "8-12", "14-18", "20-24"]
    services = "".join(f"  # The {name}.\n  {name}:\n    image: {name}\n" for name in ("web", "db", "mail"))
    assert len(split_text(f"```yaml\nservices:\n{services * 3}```\n", 1)) == 9
    rows = [f"    {{\n      name: 'n{number}',\n    }},\n" for number in range(8)]
    for some in (rows, rows[:2]):
        texts = [unit.text for unit in split_text(f"<Options\n  of={{[\n{''.join(some)}  ]}}\n/>\n", 1)]
        assert texts[-1].startswith("{ name: 'n7'") if some is rows else "name: 'n1'" in texts[-1]
        assert texts[0].startswith("{ name: 'n0'" if some is rows else "<Options")


def test_a_long_item_is_cut_into_its_blocks() -> None:
    shells = "".join(f"   In {sh}:\n\n   ```sh\n   . {sh}.sh\n   ```\n\n" for sh in ("bash", "fish", "zsh", "ksh"))
    units = split_text(f"1. Download it.\n\n2. Start it:\n\n{shells}", 1)
    assert [describe(unit) for unit in units[1:4]] == [
        "item 1 | Download it.",
        "paragraph 3 | Start it:",
        "code 5-9 | In bash: / . bash.sh",
    ]
    assert (len(units), str(units[-1].span)) == (7, "23-27")


@pytest.mark.parametrize("item", ["- ", "1. "])
def test_items_inside_of_one_another_without_end_are_read(item: str) -> None:
    assert split_text(f"{item * 3000}end\n" + "  more\n" * 30, 1)


def test_a_fold_is_a_unit_besides_what_is_in_it() -> None:
    fold = "<details>\n<summary>Why is it slow?</summary>\n\nIt is old.\n\n</details>\n"
    found = ["paragraph 1-6 | Why is it slow? It is old.", "paragraph 4 | It is old."]
    assert [describe(unit) for unit in split_text(f"{fold}\nAfter it.\n", 1)] == [*found, "paragraph 8 | After it."]
    assert split_text(fold.replace("old.", "old.\n" * LONG_BLOCK), 1)[0].span == Span(1, 2)


def test_what_notes_and_tabs_of_mkdocs_hold_is_text() -> None:
    text = "!!! tip\n\n    Be *calm*.\n\n    - one\n\n"
    text += '=== "Linux"\n    ```sh\n    apt x\n    ```\n\n    !!! note\n\n        Inner.\n\n'
    text += '=== "Mac"\n\n    # no\n\n    Brew it.\n\n```md\n=== "no"\n    x\n```\n\n    code\n'
    assert [describe(unit) for unit in split_text(text, 1)] == [
        "paragraph 3 | Be calm.",
        "item 5 | one",
        "code 7-10 | Linux: / apt x",
        "paragraph 14 | Inner.",
        "paragraph 16-20 | Mac: / Brew it.",
        'code 22-25 | Brew it. / === "no" x',
        "code 27 | code",
    ]


def test_what_tags_of_mdx_hold_is_text_below_what_a_page_shows_of_them() -> None:
    text = 'Install:\n\n<Tabs\n  values={[1]}>\n<Tab title="npm">\n```sh\nnpm i x\n```\n</Tab>\n</Tabs>\n\n'
    text += '<Accordion title="Is it free?">\n\nYes.\n\n</Accordion>\n<Snippet text="pnpm add x" />\n\n'
    text += '<Note>*Soon*.</Note>\n\n<Param path="id" x>\n  Of `Vec<T>`.\n</Param>\n\n```md\n<Tab title="no">\n```\n'
    assert [describe(unit) for unit in split_text(text, 1)] == [
        "code 1-8 | Install: npm: / npm i x",
        "paragraph 12-14 | Is it free? / Yes.",
        "paragraph 17 | pnpm add x",
        "paragraph 19 | Soon.",
        "paragraph 21-22 | id: Of Vec<T>.",
        'code 25-27 | id: Of Vec<T>. / <Tab title="no">',
    ]


def test_what_a_page_does_not_show_is_no_unit() -> None:
    text = "\n## Heading\n\n<!-- a\nb -->\n\n{/* a\nb */}\n\n[a]: b\n\n<div>\n\n{: .wide }\n\n:::\n\n<<< @/a.ts\n\n"
    assert split_text(text + "- [a](#b)\n" * 3 + "\n<script>\na();\n</script>\n", 1) == split_text("", 1) == []


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("**Vault** is a folder of notes.", "Vault"),
        ("_Interior mutability_ is a pattern.", "Interior mutability"),
        ("- \U0001f50c [**Plugin**](p.md) - adds commands", "Plugin"),
        ("- term \u2013 what it means", "term"),
        ("- **retries** `number | null` (optional) - Default: `5`", "retries"),
        ("- `options` {Object} Of the server.", "options"),
        ("- **Time:** 20 minutes at **low** - no more", "Time"),
        ("**Cascade**, when one result decides another.", "Cascade"),
        ("**Type:** int<br/>\n**Default**: 80", "Default"),
        ("**Type:** int\nand more", "Type"),
        ("*Soon*, when it is warm.", ""),
        ("- https://example.com/a", ""),
        ("- Take this, and then: run", ""),
        ("**Note** the door.", ""),
    ],
)
def test_the_term_that_is_explained(text: str, term: str) -> None:
    assert split_text(text, 1)[-1].term == term


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("| Option | Meaning |\n|---|:-:|\n| `-x` | A **blue** [door][d] |\n", "-x \u00b7 A blue door"),
        ("```{tip} 2.1\n:x: y\n\nSee {ref}`a <b>`, H{c:d}`~e.f`, `/{g}`, `h`.\n```\n", "See a, Hf, /{g}, h."),
        ("| | |\n|---|---|\n| **Type:** | An *int* |\n", "Type: An int"),
        ("> [!warning]- Mind the gap\n> It is **blue**.\n", "Mind the gap: It is blue."),
        ('!!! note "Take care"\n    The *blue* oven.\n', "Take care: The blue oven."),
        (":::{deprecated} 2.1\n:class: x\nThe *blue* oven.\n:::\n", "Deprecated 2.1: The blue oven."),
        ('<div\n  class="x">\n<p a={{b}}>Some <b>blue</b><br/>text &amp; more</p>\n</div>\n', "Some blue text & more"),
        ("- [x] ~~eggs~~ [[Note|label]] ![seen](x.png) [![or][y]][z]\n", "eggs label seen or"),
        ("{{< note\n  a=1\n>}}\n(name)=\nA ==blue== box[^1] <!-- hidden -->here**{{ x }}**. ^id\n", "A blue box here."),
        ("1. * A [blue][ref] box, `rows[i][j]`\n\n[ref]: http://example.com\n", "A blue box, rows[i][j]"),
        ("See {* ../a.py hl[1] *} `x`{.py} [][a.b] [](c/d.md) :x:.\n{: toc }\n", "See x a.b c/d \u274c."),
        ("Of [[Doors#Blue]], [[#Boxes]] ![[box.svg#icon]] and [[a#b|c]]\n", "Of Doors > Blue, Boxes and c"),
        ("---\n[[toc]]\n#blue #door are tags\n", "#blue #door are tags"),
        (
            "A [blue\ndoor](d.md), [a\nbox][b] and **two\nlines**\\\nof `a/**, **x` in `Box<dyn\nFn>`, `y`\n",
            "A blue door, a box and two lines of a/**, **x in Box<dyn Fn>, y",
        ),
    ],
)
def test_a_unit_is_shown_as_a_page_shows_it(markdown: str, shown: str) -> None:
    assert split_text(markdown, 1)[-1].text == shown


def test_a_table_of_html_is_cut_into_its_rows() -> None:
    text = "**Saved**:\n\n<div>\n<table><tr>\n<th>Of</th><th>Is</th>\n</tr>\n<tr>\n<td rowspan=2>Day</td>\n"
    text += "<td>*notes*<br>\n</td></tr>\n<TR><td>disks</td></TR>\n</table></div>\n"
    found = [describe(unit) for unit in split_text(text, 1)[1:]]
    assert found == ["row 7-10 Day| Of \u00b7 Is / Day \u00b7 notes", "row 11-12 Day| Of \u00b7 Is / Day \u00b7 disks"]


def test_an_item_of_code_and_a_fence_that_is_not_closed() -> None:
    units = split_text("- one\n\n  ```\n  - no item\n  ```\n- two\n\n```\n# no heading\n", 1)
    assert [f"{unit.kind.value} {unit.span}" for unit in units] == ["list 1-6", "item 1-5", "item 6", "code 8-9"]
