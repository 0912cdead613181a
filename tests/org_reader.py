"""A reader of Org files, as somebody would add one: Markdown of as many lines; `READERS[".org"] = read_org`."""

import re

_HEADING = re.compile(r"(\*+)[ \t]+(?:(TODO|DONE|WAITING)[ \t]+)?(.*?)(?:[ \t]+:([\w@#%:]+):)?[ \t]*$")
_KEYWORD = re.compile(r"[ \t]*#\+(\w+):?[ \t]*(.*)$", re.IGNORECASE)
_ITEM = re.compile(r"([ \t]*)(?:[-+]|(\d+)[.)])[ \t]+(.*)$")
_DRAWER = re.compile(r"[ \t]*:(\w+):[ \t]*$")
_LINK = re.compile(r"\[\[([^\[\]]+)\](?:\[([^\[\]]+)\])?\]")
_EMPHASIS = re.compile(r"(?<![\w*/=~+])([*/=~+])(?=\S)([^\n]*?\S)\1(?![\w*/=~+])")
_MARKS = {"*": "**", "/": "*", "=": "`", "~": "`", "+": "~~"}


def read_org(text: str) -> str:
    """Return the Markdown of an Org file; each line becomes one."""
    lines = text.split("\n")
    has_title = any(line.lower().startswith("#+title:") for line in lines)
    block = ""  # the kind of the block that is open: src, example, quote, drawer
    made = []
    for line in lines:
        keyword = _KEYWORD.match(line)
        name = keyword[1].lower() if keyword else ""
        if block and (name == f"end_{block}" or (block == "drawer" and line.strip().upper() == ":END:")):
            made.append("" if block in ("quote", "drawer") else "```")
            block = ""
        elif block == "quote":
            made.append(f"> {read_inline(line)}")
        elif block == "drawer":
            made.append("")
        elif block:
            made.append(line)
        elif name in ("begin_src", "begin_example", "begin_quote"):
            block = name.removeprefix("begin_")
            language = keyword[2].partition(" ")[0] if keyword and block == "src" else ""
            made.append("" if block == "quote" else f"```{language}")
        elif _DRAWER.match(line):
            block = "drawer"
            made.append("")
        else:
            made.append(read_line(line, has_title=has_title))
    return "\n".join(made)


def read_line(line: str, *, has_title: bool) -> str:
    """Return the Markdown of a line outside of blocks."""
    if heading := _HEADING.match(line):
        stars, state, title, tags = heading.groups("")
        said = " ".join(filter(None, (state, *(f"#{tag}" for tag in tags.split(":") if tag))))
        return f"{'#' * min(6, len(stars) + has_title)} {read_inline(title)}" + (f" <!-- {said} -->" if said else "")
    if keyword := _KEYWORD.match(line):
        return f"# {keyword[2]}" if keyword[1].lower() == "title" else ""
    if line.startswith("# "):
        return ""
    if line.lstrip().startswith("|-"):
        return line.replace("+", "|")
    if item := _ITEM.match(line):
        indent, number, rest = item.groups("")
        return f"{indent}{number + '.' if number else '-'} {read_inline(rest)}"
    return read_inline(line)


def read_inline(text: str) -> str:
    """Return the Markdown of words, emphasis and links."""
    pieces, end = [], 0
    for link in _LINK.finditer(text):
        pieces += [read_emphasis(text[end : link.start()]), read_link(link)]
        end = link.end()
    return "".join([*pieces, read_emphasis(text[end:])])


def read_emphasis(text: str) -> str:
    """Return Markdown's marks for those of Org."""
    return _EMPHASIS.sub(lambda found: f"{_MARKS[found[1]]}{found[2]}{_MARKS[found[1]]}", text)


def read_link(link: re.Match[str]) -> str:
    """Return `[label](target)`; `*Heading` is one of the same file."""
    target, label = link[1], link[2] or link[1].removeprefix("file:").lstrip("*")
    if target.startswith("*"):
        target = "#" + re.sub(r"\W+", "-", target[1:].strip().lower())
    path, _, heading = target.removeprefix("file:").partition("::*")
    return f"[{label}]({path}{'#' + re.sub(r'[^a-z0-9]+', '-', heading.strip().lower()) if heading else ''})"
