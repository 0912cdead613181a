"""Documents for the tests of the web page: an outline of some depth, a large family, and one that means harm."""

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
{chr(10).join("| " + " | ".join(f"zebra{row}x{n}" for n in range(60)) + " |" for row in range(30))}

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
    "garden/bees.md": "# Bees\n\nBees fly to the flowers of [tomatoes](tomatoes.md#blight) and beans.\n",
    "garden/deep/er/well.md": "# Well\n\nThe well is forty feet deep.\n",
    "many.md": "# Many\n\n" + "".join(f"## Item {n}\n\nThing number {n} is blue.\n\n" for n in range(230)),
    "hostile.md": HOSTILE,
    "empty.md": "",
}
