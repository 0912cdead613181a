"""`scripts/prepare_corpora.py`: what it makes of each kind of source, read from a real repository."""

import subprocess
from pathlib import Path

import pytest

from scripts import prepare_corpora as prepare


def test_a_commit_is_read_without_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "docs/old").mkdir(parents=True)
    (tmp_path / "docs/a.md").write_bytes(b"# A\r\n\r\nText.\r\n")
    (tmp_path / "docs/old/b.md").write_text("# B\n")
    (tmp_path / "docs/logo.png").write_bytes(b"\x89PNG")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "First"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    origin = {"commit": "HEAD", "root": "docs", "without": ["old"], "into": "first"}
    assert prepare.read_files(tmp_path / ".git", origin) == {"first/a.md": "# A\n\nText.\n"}


@pytest.mark.parametrize(
    ("corpus", "source", "made"),
    [
        (
            "api",
            {"a/b.mdx": "---\ntitle: B\n---\nimport {X} from '/x'\n\n<Info>\nOne.\n</Info>\n\n```ts\n<T>\n```\n"},
            {"a/b.md": "# B\n\nOne.\n\n\n```ts\n<T>\n```\n"},
        ),
        (
            "config",
            {
                "a.md": "---\ntitle: A\nsummary: About.\n---\n"
                '### port\n\n{{< confkey type="integer" required="no" >}}\n\nOf {{< sitevar name="d" nojs="host" >}}.\n'
            },
            {"a.md": "# A\n\nAbout.\n\n### port\n\nType: integer. Required: no.\n\nOf host.\n"},
        ),
        (
            "proposals",
            {"pep-0001.rst": "PEP: 1\nTitle: One\n\nWhy\n===\n\nSo.\n\nHow\n---\n\n# no\n\nIn the public domain.\n"},
            {"pep-0001.md": "# PEP 1: One\n\n\n## Why\n\nSo.\n\n\n### How\n\n    # no\n\nIn the public domain.\n"},
        ),
        ("proposals", {"pep-0002.rst": "PEP: 2\nTitle: Two\n\nAll rights reserved.\n"}, {}),
        (
            "games",
            {"Play/# Dice.md": "# Dice\n\nOne.\n\n## Six\n\nTwo.\n", "Spells/A.md": "a", "Spells/B.md": "b"},
            {
                "Spells/A.md": "a",
                "Play/Dice-00.md": "# Dice\n\nOne.\n\n",
                "Play/Dice-01.md": "# Dice\n\n## Six\n\nTwo.\n",
            },
        ),
        (
            "lsr",
            {"a.Rmd": "---\ntitle: A\n---\n# A {#a}\n\n```{r, echo=FALSE}\nplot(x)\n```\n"},
            {"a.md": "# A\n\n```r\nplot(x)\n```\n"},
        ),
        (
            "diy",
            {"1.txt": "Preface\n\n** A Top [30]\n\nTurn it.\n\n[Illustration: A Top]\n\n\nCONTENTS\n\nA\nTop, A 30\n"},
            {"pages-025-049.md": "# Things to make and do: pages 25 to 49\n\n## A Top\n\nTurn it.\n"},
        ),
        (
            "dccode",
            {
                "1/index.xml": '<container xmlns="https://code.dccouncil.us/schemas/dc-library"'
                ' xmlns:xi="http://www.w3.org/2001/XInclude"><heading>Animals.</heading><container>'
                "<prefix>Chapter</prefix><num>2A</num><heading>Dogs.</heading>"
                '<xi:include href="./sections/1-2.xml"/></container></container>',
                "1/sections/1-2.xml": '<section xmlns="https://code.dccouncil.us/schemas/dc-library"><num>1-2</num>'
                "<heading>Leash.</heading><para><num>(a)</num><text>Required.</text></para>"
                "<annotations><annotation>Old.</annotation></annotations></section>",
            },
            {"title-1/chapter-2a.md": "# Animals — Chapter 2A. Dogs\n\n## § 1-2. Leash\n\n(a) Required.\n"},
        ),
    ],
)
def test_a_source_is_made_markdown(corpus: str, source: dict[str, str], made: dict[str, str]) -> None:
    assert prepare.PREPARATIONS[corpus](source) == made
