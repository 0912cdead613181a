"""Documents for the tests of the web page: an outline of some depth, a large family, and one that means harm."""

import base64
from pathlib import Path

EVIL = "https://evil.example"
LONG_WORD = "supercalifragilistic" * 12
HOSTILE = f"""# Hostile <script>document.title = "owned"</script> {LONG_WORD}

The zebra crosses here.
<script>document.title = "owned"</script> <img src="{EVIL}/inline.png" onerror="alert(1)">

<iframe src="{EVIL}/frame"></iframe>
<style>body {{ display: none }}</style>
<form action="{EVIL}"><input name="question"></form>

[click](javascript:document.title='owned') [data](data:text/html,<script>alert(1)</script>)
[file](file:///etc/passwd)
<javascript:alert(1)> [tab](java\tscript:alert(1))
[far]({EVIL}/page)
[up](../../../../etc/passwd) ![zebra]({EVIL}/z.png)

Bidi \u202eesrever\u202c and \x1b[31mANSI\x1b[0m and \x08 end.

| {" | ".join(f"column {n}" for n in range(60))} |
| {" | ".join(["-:"] * 60)} |
{chr(10).join("| " + " | ".join(f"zebra{row}x{n}" for n in range(60)) + " |" for row in range(3))}

```python" onload="alert(1)
print("{"zebra " * 60}")
```
"""
PAGES = {
    "mail.md": "---\ntitle: Mail\n---\n\n# Mail\n\nHow letters leave the house.\n\n## Stamps\n\nA stamp pays for "
    "the *journey* of a letter. See [parcels](#parcels) and [[bees]].\n\n"
    "```python\nstamp.pay(letter)\n```\n\n## Parcels\n\n"
    "A parcel is weighed before it travels by train. See [no such page](missing.md).\n\n"
    f"{'It is a long journey, over land and sea, and every station has a clock. ' * 30}\n",
    "garden/tomatoes.md": "# Tomatoes\n\nTomatoes want sun, water and a stick.\n\n## Blight\n\n"
    "Blight turns the leaves brown in a wet summer.\n\n### In a greenhouse\n\nOpen the windows.\n",
    "garden/letters.md": "# Letters\n\nOf letters.\n\n## Where do letters go?\n\nTo the office.\n",
    "garden/bees.md": "# Bees\n\nBees fly to the flowers of [tomatoes](tomatoes.md#blight) and beans.\n",
    "hives.md": "# Bees\n\nOf hives.\n",
    "apiary.md": "# Apiary\n\nSee [flowers](garden/bees.md) and [hives](hives.md).\n",
    "garden/deep/er/well.md": "---\ndug: 1987-11-02\n---\n\n# Well\n\nThe well is forty feet deep.\n",
    "many.md": "# Many\n\n" + "".join(f"## Item {n}\n\nThing number {n} is blue.\n\n" for n in range(90)),
    "hostile.md": HOSTILE,
    "empty.md": "",
    "notes.md": "# Notes\n\n> [!warning] Mind the gap\n> It is wide.\n\n- [ ] Read on[^1]\n- [x] Write $x^2$\n\n"
    "![a dot](art/dot.png) and ![[drawing.svg]], not ![fake](art/fake.png)\n\n[^1]: In the evening.\n"
    + "".join(
        f"\n> [!{kind}]- A {kind}\n> ==Its== [text](bees.md) and `code`.\n" for kind in ("tip", "faq", "bug", "quote")
    )
    + "\n| | b |\n|---|--:|\n| 1 | 2 |\n\nTerm\n: Its meaning\n\n$$\nx^2\n$$\n\n```mermaid\nA-->B\n```\n\n"
    "<details>\n<summary>More</summary>\n\n```python\n@once  # no more\ndef two(x: str = 'two'): return 2\n```\n\n"
    "</details>\n\n1. One\n   > A quote\n2. ~~Two~~ Vec<T>\n\n### Deep\n\n##### Deeper\n\nEnd.\n",
}
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="9" height="9"/></svg>'
PICTURES = {
    "art/dot.png": DOT,
    "attachments/drawing.svg": SVG.encode(),
    "art/fake.png": b"<html><script>alert(1)</script>",
    "art/active.svg": SVG.replace("<rect", "<script>alert(1)</script><rect").encode(),
    "art/.hidden.png": DOT,
    "art/secret.txt.png.key": DOT,
    "art/large.png": DOT + b"\0" * 4_000_000,
    "art/page.html": b"<script>alert(1)</script>",
}


def write_pictures(docs: Path) -> None:
    """Writes them, and one outside the folder with a link to it."""
    for name, content in PICTURES.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_bytes(content)
    (docs.parent / "outside.png").write_bytes(DOT)
    (docs / "art" / "link.png").symlink_to(docs.parent / "outside.png")
