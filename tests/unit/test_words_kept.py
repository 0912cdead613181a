"""No word of a text is lost: what is quoted stands in its lines, and what stands there is quoted."""

import html
import re
from pathlib import Path

import pytest

from pageindex.dialects import COMMONMARK
from pageindex.document import parse_document
from pageindex.units import UnitKind
from tests.program import PROJECT

WORD = re.compile(r"[^\W_]+")

# Paragraphs as people write them in notes, mails, recipes, transcripts: each holds nothing that a page hides.
PLAIN = [
    "Use a Vec<Option<T>> for the table, a HashMap<String, Vec<u8>> for names.",
    "The exponent doubles as x ^k and the root as y ^ 2.",
    "The growth is {{ growth.rate }} percent; {% if rate %} it grows {% endif %}.",
    "Copy it with cp <source> <target>, then ssh <user>@<host>.",
    "It cost $5 then, $6 now, and $HOME is set, $PATH too.",
    "Run `echo $HOME && ls -la ~/notes/*.md | grep '#todo'` first.",
    "Of a_b_c, snake_case, __init__ and *args, **kwargs in Python.",
    "Set width=50%% and height=%d, or %s where %% is one sign.",
    "C# and F# are languages; #12 is an issue, # alone is a sign.",
    "An e-mail: Ann Lee <ann@example.org> wrote on 3. May at 10:30:",
    "a[i][j] = b[k] * c[l]; // no link, (see below) [1]",
    "if (a < b && c > d) { return !x; } else { x ||= y ?? z; }",
    "f(x) = x^2 + 2 * x * y - z_1, where x \u2208 \u211d and y \u2264 5.",
    "sha256 9f86d081884c7d659a2feaa0c55ad015 of the file, 0x1F600 \U0001f600.",
    "Kapitel 3: Die Stra\u00dfe nach K\u00f6ln, \u201eweit weg\u201c, \u00a7 5 Abs. 2.",
    "Le prix est de 5 \u20ac : c\u2019est tr\u00e8s cher ! N\u2019est-ce pas ?",
    "\u8001\u4eba\u5728\u6cb3\u8fb9\u4fee\u7406\u5c0f\u8239\uff0c\u7136\u540e\u53bb\u5e02\u573a\u4e70\u9762\u5305\u3002",
    "\u304a\u8336\u306f\u516b\u5341\u5ea6\u3067\u6df9\u308c\u307e\u3059\u3002\u4e09\u5206\u5f85\u3061\u307e\u3059\u3002",
    "2 cups flour / 1 tsp. salt (sea salt), 180 \u00b0C ~ 25 min.",
    "Ann: so we -- you know -- we went there... Bob: uh, no!",
    "Roses are red,\nviolets are blue,\nsugar is sweet\nand so are you.",
    ":::: is four colons, :: two, ::: three, ::note:: none.",
    "=== is strict equality, == is not, ==really== not.",
    "!!! watch out ??? who knows /// slashes \\\\\\ backslashes",
    "key: value; other = thing, a => b, a -> b, a := 5.",
    "<T extends Foo> and List<? super Bar>, std::map<int, char>.",
    "^block and [^missing] and [[ -f file ]] && exit 1",
    "\\d+\\s*[a-z]{2,3} matches; so does ^(?:foo|bar)$ too.",
    "Rated 4/5 *** by 3 people, 1* by one, _very_ good_ish.",
    "{: .wide } {.class} {#id} {note} are braces, {% raw %} more.",
]


def words(text: str) -> list[str]:
    return WORD.findall(html.unescape(text))


def find_missing(sought: list[str], held: list[str]) -> str:
    """The first word that does not stand behind those before it; empty where all do."""
    rest = iter(held)
    return next((word for word in sought if word not in rest), "")


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_paragraph_is_quoted_word_by_word(text: str) -> None:
    (node,) = (placed.node for placed in parse_document("a.md", f"{text}\n").nodes)
    assert words(" ".join(unit.text for unit in node.units)) == words(text)
    assert node.shown_text is None  # all of it is searched


@pytest.mark.parametrize("folder", ["docs", "tests/eval_corpus", "benchmarks/data/lines", "tests/data/languages"])
def test_what_is_quoted_of_documents_stands_in_the_cited_lines(folder: str) -> None:
    for file in (PROJECT / folder).rglob("*.md"):
        check_units(file)


def check_units(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    lines = text.split("\n")
    for placed in parse_document(file.name, text, dialect=COMMONMARK.name).nodes:
        for unit in placed.node.units:
            if unit.kind in (UnitKind.FIELD, UnitKind.PROPERTY):  # a property may be a cell with its column's name
                continue
            cited = "\n".join(lines[unit.span.first - 1 : unit.span.last])
            joined = "".join(words(cited))  # `Enum`s is one word to a reader
            missing = find_missing(words(unit.text), words(cited))
            assert missing == "" or missing in joined or "[!" in cited, (file, unit.span, missing)


def test_a_comment_in_a_table_of_html_is_not_searched() -> None:
    (node,) = (placed.node for placed in parse_document("a.md", "<table><tr><td>a<!-- b --></td></tr></table>\n").nodes)
    assert node.shown_text == "<table><tr><td>a</td></tr></table>\n"
