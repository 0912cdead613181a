"""Fetch the documents that the training questions are about from their repositories, as the questions name them.

    uv run scripts/prepare_corpora.py SOURCES --repositories FOLDER

`scripts/training/corpora.yaml` names the repositories and commits. FOLDER/OWNER+NAME is a clone of each, or of those
that are wanted, with a work tree or without (`git clone --bare`). Writes SOURCES/CORPUS/...: the files as they are, or,
where `prepared` says so, the Markdown that a function below makes of them. A corpus whose folder exists is left as it
is. What was written for this project, the corpora without a repository, is in `scripts/training/notes.jsonl.gz`,
{corpus, path, text}. `scripts/training_data.py` cuts the result into sections, and says which questions find theirs.
"""

import os
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import click
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.reader_data import TRAINING, read_rows

TEXTS = (".md", ".mdx", ".Rmd", ".rst", ".txt", ".xml", ".cnxml")
LAW = {"": "https://code.dccouncil.us/schemas/dc-library"}
BOOK = {"": "http://cnx.rice.edu/cnxml"}
NOT_READ = {
    "learning-objectives",
    "review-questions",
    "references",
    "suggested-reading",
}  # classes of a book's sections

Files = dict[str, str]  # path, with `/` -> text


@click.command()
@click.argument("sources", type=click.Path(file_okay=False, path_type=Path))
@click.option("--repositories", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(sources: Path, repositories: Path) -> None:
    """Write the documents of all corpora whose repositories are below FOLDER into SOURCES."""
    written = [*read_rows(TRAINING / "notes.jsonl.gz")]
    for corpus in yaml.safe_load((TRAINING / "corpora.yaml").read_text(encoding="utf-8")):
        name, origins = corpus["name"], corpus.get("origins", [corpus] if "repository" in corpus else [])
        clones = [find_repository(repositories, origin["repository"]) for origin in origins]
        found = [(clone, origin) for clone, origin in zip(clones, origins, strict=True) if clone]
        if (sources / name).exists():
            print(f"{name}: already there")
        elif len(found) < len(origins):
            print(f"{name}: no clone of {' and '.join(origin['repository'] for origin in origins)}")
        else:
            files: Files = {}
            for clone, origin in found:
                files |= read_files(clone, origin)
            files |= {row["path"]: row["text"] for row in written if row["corpus"] == name}
            if "cut" in corpus:
                (text,) = files.values()
                files = cut_lines(text, corpus["cut"])
            files = PREPARATIONS.get(name, keep)(files)
            for path, text in files.items():
                target = sources / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            print(f"{name}: {len(files)} files")


def find_repository(repositories: Path, name: str) -> Path | None:
    """Return the git directory of the clone of `OWNER/NAME`; None without one."""
    clone = repositories / name.replace("/", "+")
    return next((path for path in (clone / ".git", clone / "repo", clone) if (path / "HEAD").is_file()), None)


def read_files(repository: Path, origin: Mapping[str, Any]) -> Files:
    """Read the text files of `paths` without those of `without` (git's pathspecs below `root`) at the commit.

    Links are left out, and files that a clone names and does not hold, as large ones may be.
    """
    names = list_texts(repository, origin)
    files = {}
    for name, data in zip(names, read_objects(repository, names.values()), strict=True):
        if data is None:
            print(f"{name}: not in {repository}")
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # Project Gutenberg
        path = PurePosixPath(origin.get("into", "")) / name
        files[path.as_posix()] = text.replace("\r\n", "\n")
    return files


def list_texts(repository: Path, origin: Mapping[str, Any]) -> dict[str, str]:
    """Map the text files that are wanted to their objects' names."""
    tree = f"{origin['commit']}:{origin.get('root', '')}"
    specs = [*origin.get("paths", ["."]), *(f":(exclude){path}" for path in origin.get("without", []))]
    with tempfile.TemporaryDirectory() as room:  # pathspecs are those of an index, so the tree becomes one
        places = {"GIT_INDEX_FILE": str(Path(room) / "index"), "GIT_WORK_TREE": room}
        run_git(repository, "read-tree", tree, places=places)
        listed = run_git(repository, "ls-files", "--stage", "-z", "--", *specs, places=places).decode("utf-8")
    names = {}
    for entry in listed.split("\0")[:-1]:
        stage, _, name = entry.partition("\t")
        mode, number, _ = stage.split()
        if mode.startswith("100") and name.endswith(TEXTS):
            names[name] = number
    return names


def read_objects(repository: Path, names: Iterable[str]) -> Iterator[bytes | None]:
    """Yield the contents of git's objects; None for one that the clone does not hold."""
    asked = "".join(f"{name}\n" for name in names)
    read = BytesIO(run_git(repository, "cat-file", "--batch", given=asked.encode()))
    while header := read.readline():
        if header.endswith(b" missing\n"):
            yield None
        else:
            yield read.read(int(header.split()[2]))
            read.readline()


def run_git(repository: Path, *arguments: str, given: bytes = b"", places: Mapping[str, str] | None = None) -> bytes:
    """Return what git writes; `places` are variables of its environment, a work tree among them is where it runs."""
    places = places or {}
    return subprocess.run(
        ["git", *arguments],
        check=True,
        capture_output=True,
        input=given,
        cwd=places.get("GIT_WORK_TREE"),
        env={**os.environ, "GIT_DIR": str(repository), **places},
    ).stdout


def cut_lines(text: str, parts: Mapping[str, tuple[int, int]]) -> Files:
    """Return parts of a text by their paths, each given by its first and last line."""
    lines = text.split("\n")
    return {path: "\n".join(lines[first - 1 : last]) + "\n" for path, (first, last) in parts.items()}


def keep(files: Files) -> Files:
    """Return the Markdown files as they are."""
    return {path: text for path, text in files.items() if path.endswith(".md")}


def name_markdown(files: Files) -> Files:
    """Return MDX files with the ending of Markdown, and Markdown files as they are."""
    return {str(PurePosixPath(path).with_suffix(".md")): text for path, text in files.items()}


def prepare_cli(files: Files) -> Files:
    """Return command-line pages, without those of Windows that are about PowerShell."""
    return {path: text for path, text in files.items() if not ("/windows/" in path and "PowerShell" in text)}


def prepare_til(files: Files) -> Files:
    """Turn reStructuredText into Markdown where the notes have some: links and fields."""
    made = {}
    for path, text in files.items():
        text = re.sub(r"`([^`<]+?)\s*<([^`>]+)>`_+", r"[\1](\2)", text, flags=re.S)
        made[str(PurePosixPath(path).with_suffix(".md"))] = re.sub(r"(?m)^:(\w+):", r"\1:", text)
    return made


def prepare_api(files: Files) -> Files:
    """Turn MDX into Markdown: the front matter's title as a heading; imports, comments and JSX tags dropped."""
    made: Files = {}
    for path, text in files.items():
        title, _, body = split_front_matter(text)
        # Only outside code: there, `<Name>` may be a type.
        pieces = re.split(r"(^ *```.*?^ *```)", body, flags=re.M | re.S)
        for place in range(0, len(pieces), 2):
            piece = re.sub(r"^import .*\n|\{/\*.*?\*/\}", "", pieces[place], flags=re.M)
            piece = re.sub(r'<Route method="(\w+)">', r"\1 ", piece)
            piece = re.sub(r'^ *<[A-Z]\w*[^>]*?\btitle="([^"]*)"[^>]*>', r"**\1**\n", piece, flags=re.M)
            pieces[place] = re.sub(r"^ *<[A-Z]\w*[^>]*>|</[A-Z]\w*>", "", piece, flags=re.M)
        made[PurePosixPath(path).with_suffix(".md").as_posix()] = f"# {title}\n\n{''.join(pieces).lstrip()}"
    return made


def prepare_config(files: Files) -> Files:
    """Turn Hugo pages into Markdown: title and summary of the front matter, shortcodes as text, no definitions."""
    made: Files = {}
    for path, text in files.items():
        title, summary, body = split_front_matter(text)
        body = re.sub(r"\{\{<\s*confkey\s+(.*?)\s*/?>\}\}", describe_option, body)
        body = re.sub(r'\{\{[<%]\s*sitevar\s.*?nojs="([^"]*)".*?[>%]\}\}', r"\1", body)
        body = re.sub(r'\{\{[<%]\s*(?:rel)?ref\s+"?([^"\s]*)"?\s*[>%]\}\}', r"\1", body)
        body = re.sub(r'\{\{[<%]\s*support\s+support="([^"]*)".*?[>%]\}\}', r"\1", body)
        body = re.sub(r'\{\{<\s*(?:callout\s.*?title=|envTab )"([^"]*)".*?>\}\}', r"**\1**", body)
        body = re.sub(r"\{\{[<%].*?[>%]\}\}", "", body, flags=re.S)
        body = re.sub(r"^\[[^\]\n]+\]: .*\n?", "", body, flags=re.M)
        made[path] = f"# {title}\n\n{summary}\n\n{body.lstrip()}"
    return made


def describe_option(shortcode: re.Match[str]) -> str:
    """Turn a shortcode with `type="string" required="yes"` into `Type: string. Required: yes.`; for `re.sub`."""
    return " ".join(f"{key.capitalize()}: {value}." for key, value in re.findall(r'(\w+)="([^"]*)"', shortcode[1]))


def prepare_guides(files: Files) -> Files:
    """Strip MkDocs pages of front matter, HTML, button links, icons and lone images; give each a title."""
    made: Files = {}
    for path, text in keep(files).items():
        title, _, body = split_front_matter(text)
        body = re.sub(r'<details class="downloads".*?</details>|<style>.*?</style>', "", body, flags=re.S)
        body = re.sub(r"^\[.*\]\(.*\)\{[^}\n]*\.(?:md-button|card-link).*$", "", body, flags=re.M)
        body = re.sub(r":(?:material|octicons|simple|fontawesome)-[\w-]+:\s?", "", body)
        body = re.sub(r'<p class="admonition-title">(.*?)</p>', r"**\1**", body)
        body = re.sub(r"</?(?:div|details|summary|figure|figcaption|small|p|a|img|span|button|br)\b[^>]*>", "", body)
        body = re.sub(r"^!\[.*?\]\(.*?\)(?:\{.*?\})?\s*$", "", body, flags=re.M)
        body = re.sub(r" ?\{ ?[:.#][^}\n]*\}", "", body)
        body = re.sub(r"\n{3,}", "\n\n", body).lstrip()
        made[path] = body if re.search(r"^# ", body, flags=re.M) else f"# {title}\n\n{body}"
    return made


def prepare_proposals(files: Files) -> Files:
    """Turn reStructuredText's underlined titles into `#`, by the order of adornments; keep only the header's title."""
    made: Files = {}
    for path, text in files.items():
        number, title = (re.search(rf"^{field}: *(.*(?:\n +.*)*)", text, flags=re.M) for field in ("PEP", "Title"))
        if not (number and title and re.search(r"public[- ]domain|CC0", text, flags=re.I)):
            continue
        lines = re.sub(r"^ {0,3}#", r"    #", text.split("\n\n", 1)[1], flags=re.M).split("\n")
        levels: dict[tuple[str, bool], int] = {}
        made_lines = [f"# PEP {number[1]}: {' '.join(title[1].split())}", ""]
        adornment = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\s*")
        place = 0
        while place < len(lines):
            over = adornment.fullmatch(lines[place])
            has_over = bool(over and place + 2 < len(lines) and lines[place + 2].rstrip() == lines[place].rstrip())
            name, under = [*lines[place + has_over :], "", ""][:2]
            found = adornment.fullmatch(under)
            if found and name.strip() and (has_over or name[0] != " ") and not adornment.fullmatch(name):
                level = levels.setdefault((found[1], has_over), min(len(levels) + 2, 6))
                made_lines += ["", f"{'#' * level} {name.strip()}"]
                place += 2 + has_over
            else:
                made_lines.append(lines[place])
                place += 1
        made[path.replace(".rst", ".md")] = "\n".join(made_lines)
    return made


def prepare_games(files: Files) -> Files:
    """Return every second spell and treasure; of the rest, a file for each level-2 heading, below the title."""
    made: Files = {}
    for folder in ("Spells/", "Treasure/"):
        made |= {path: files[path] for path in sorted(path for path in files if path.startswith(folder))[::2]}
    for path, text in files.items():
        if not path.startswith(("Spells/", "Treasure/")):
            title = text.split("\n", 1)[0]
            parts = re.split(r"^(?=## )", text, flags=re.M)
            stem = path.removesuffix(".md").replace("# ", "")
            made |= {f"{stem}-{n:02}.md": f"{title}\n\n{part}" if n else part for n, part in enumerate(parts)}
    return made


def prepare_lsr(files: Files) -> Files:
    """Strip R Markdown of front matter, heading attributes, chunk options and chunks that only include images."""
    made: Files = {}
    for path, text in files.items():
        body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
        body = re.sub(
            r"^```\{r.*?\}\n(.*?)^```",
            lambda chunk: "" if "include_graphics" in chunk[1] else f"```r\n{chunk[1]}```",
            body,
            flags=re.M | re.S,
        )
        body = re.sub(r"^(#+ .*?) *\{[#.-].*\} *$", r"\1", body, flags=re.M)
        made[path.replace(".Rmd", ".md")] = body
    return made


def prepare_diy(files: Files) -> Files:
    """Cut a book with `** Title [page]` into files of 25 printed pages, with a level-2 heading for each title."""
    [text] = files.values()
    body = re.sub(r"\[Illustration.*?\]", "", text.split("\n\nCONTENTS\n\nA\n", 1)[0], flags=re.S)
    made: Files = {}
    page = 0
    for article in re.split(r"\n\*\*(?!\*) ?", body)[1:]:
        marked = re.match(r"(.*?)\s*\[(\d+)\]?\n", article, flags=re.S) if "[" in article[:150] else None
        title, content = (marked[1], article[marked.end() :]) if marked else article.split("\n", 1)
        page = int(marked[2]) if marked else page
        first = page - page % 25
        path = f"pages-{first:03}-{first + 24:03}.md"
        made.setdefault(path, f"# Things to make and do: pages {first} to {first + 24}\n")
        content = re.sub(r"^\[?\d+\]\n", "", content, flags=re.M)
        made[path] += f"\n## {' '.join(title.split())}\n\n{content.strip()}\n"
    return made


def prepare_household(files: Files) -> Files:
    """Cut two old books into a file for each chapter; see the two functions below."""
    made: Files = {}
    for path, text in files.items():
        text = re.sub(r"\[Illustration.*?\]|\[Page \d+\]", "", text, flags=re.S)
        chapters = split_etiquette(text) if path.startswith("14314") else split_beeton(text)
        made |= {chapter: re.sub(r"\n{3,}", "\n\n", body) for chapter, body in chapters}
    return made


def split_etiquette(text: str) -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of each chapter of Emily Post's book: `=HEADING=` to a level-2 heading."""
    for chapter in re.split(r"\nCHAPTER [IVXL]+\n", text.split("=ETIQUETTE=", 1)[1].split("=INDEX=", 1)[0])[1:]:
        title, body = chapter.strip().split("\n\n", 1)
        title = string.capwords(title)
        body = re.sub(r"^=([^=\n]+(?:\n[^=\n]+)?)=$", lambda found: f"## {string.capwords(found[1])}", body, flags=re.M)
        yield f"etiquette/{slug(title)}.md", f"# {' '.join(title.split())}\n\n{body}\n"


def split_beeton(text: str) -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of the chapters of Isabella Beeton's book that are not about cookery."""
    # The title is below the first forty chapters' numbers, and above those of the last four.
    chapters = re.finditer(
        r"\n(?:([A-Z][A-Z ,.&]+)\n+)?CHAPTER ([IVXL]+)\.\n+(?:([A-Z][A-Z ,.&]+)\n\n)?(.*?)"
        r"(?=\n(?:[A-Z][A-Z ,.&]+\n+)?CHAPTER [IVXL]+\.\n|\n\*\*\*END OF)",
        text,
        flags=re.S,
    )
    for above, number, below, body in (found.groups() for found in chapters):
        if number in {"I", "II", "III", "XLI", "XLII", "XLIII", "XLIV"}:
            title = string.capwords((below or above).strip(". "))
            body = re.sub(r"^ {4}", "", body, flags=re.M)
            body = re.sub(
                r"^([A-Z][A-Z ,'&;-]{2,})\.?$", lambda name: f"## {string.capwords(name[1])}", body, flags=re.M
            )
            body = re.sub(r"^(?:\d+\. )?_([A-Z][^_]{2,70}?)\.?_(?=[ .,-])[.-]*", r"### \1\n\n", body, flags=re.M)
            body = re.sub(
                r"^\d+\. ([A-Z][A-Z ',&-]{3,70}?)\.--",
                lambda name: f"### {string.capwords(name[1])}\n\n",
                body,
                flags=re.M,
            )
            body = re.sub(r"^\d+\. ", "", body, flags=re.M)
            yield f"beeton/{slug(title)}.md", f"# {title}\n\n{body}\n"


def prepare_dccode(files: Files) -> Files:
    """Turn a law's XML into files by chapter, with headings by part and section; no annotations, nothing repealed."""
    made: Files = {}
    for path, text in files.items():
        if path.endswith("/index.xml"):
            number = path.split("/")[0]
            title = ElementTree.fromstring(text)
            for chapter in title.iterfind("container", LAW):
                top = f"{heading(title)} — {name_container(chapter)}"
                lines = [f"# {top}", *read_container(chapter, files, number, 2)]
                if len(lines) > 1:
                    chapter_number = chapter.findtext("num", "", LAW).lower()
                    made[f"title-{number}/chapter-{chapter_number}.md"] = "\n\n".join(lines) + "\n"
    return made


def heading(element: ElementTree.Element) -> str:
    """Return the heading of a container or section on one line, without its full stop."""
    return read_line(element.find("heading", LAW)).removesuffix(".")


def name_container(container: ElementTree.Element) -> str:
    """Return the name of a container: `Chapter 3. Adoption`."""
    prefix, number = (container.findtext(tag, "", LAW) for tag in ("prefix", "num"))
    return f"{prefix} {number}. {heading(container)}"


def read_container(container: ElementTree.Element, files: Files, title: str, level: int) -> Iterator[str]:
    """Yield the blocks of a chapter or part of it: its sections, and its parts with theirs below."""
    for child in container:
        if child.tag.endswith("}container"):
            inner = list(read_container(child, files, title, level + 1))
            if inner:
                yield f"{'#' * level} {name_container(child)}"
                yield from inner
        elif child.tag.endswith("}include"):
            section = ElementTree.fromstring(files[f"{title}/{child.attrib['href'].removeprefix('./')}"])
            name = heading(section)
            if section.tag.endswith("}section") and not re.search(
                r"\b(repealed|reserved|expired|omitted|transferred)\b", name, flags=re.I
            ):
                yield f"{'#' * level} § {section.findtext('num', '', LAW)}. {name}"
                yield from read_paragraphs(section)


def read_paragraphs(element: ElementTree.Element) -> Iterator[str]:
    """Yield the text of a section, a block for each of its paragraphs, `(a)` before it."""
    number = ""
    for child in element:
        tag = child.tag.rpartition("}")[2]
        text = read_line(child)
        if tag == "num":
            number = "" if element.tag.endswith("}section") else text
        elif tag == "heading" and not element.tag.endswith("}section"):
            number = f"{number} {text}".strip()
        elif tag == "para":
            if number:
                yield number
                number = ""
            yield from read_paragraphs(child)
        elif tag == "table":
            for row in child.iter(f"{{{LAW['']}}}tr"):
                yield " | ".join(map(read_line, row))
        elif tag not in {"annotations", "annotation", "heading"} and text:
            yield f"{number} {text}".strip()
            number = ""


def prepare_nursing(files: Files) -> Files:
    """Turn textbooks in CNXML into a folder for each book, a file for each module, numbered in the book's order."""
    made: Files = {}
    for path, text in files.items():
        if path.startswith("collections/"):
            book = PurePosixPath(path).name.split(".")[0]
            for number, name in enumerate(re.findall(r'document="(m\d+)"', text)):
                module = ElementTree.fromstring(files[f"modules/{name}/index.cnxml"])
                title = module.findtext("title", "", BOOK)
                content = module.find("content", BOOK)
                if title not in {"Introduction", "Preface"} and content is not None:
                    blocks = [f"# {title}", *read_module(content, 2)]
                    made[f"{book}/{number:03}-{slug(title)[:60]}.md"] = "\n\n".join(blocks) + "\n"
    return made


def read_module(element: ElementTree.Element, level: int) -> Iterator[str]:
    """Yield the blocks of a module or part: headings, text, lists, rows of tables, captions; no exercises."""
    for child in element:
        tag = child.tag.rpartition("}")[2]
        if tag in {"section", "note"} and child.get("class") not in NOT_READ:
            title = read_line(child.find("title", BOOK))
            if title:
                yield f"{'#' * level} {title}" if tag == "section" else f"**{title}**"
            yield from read_module(child, level + 1)
        elif tag == "list":
            yield "\n".join(f"- {read_line(item)}" for item in child.iterfind("item", BOOK))
        elif tag == "table":
            yield "\n".join(" | ".join(map(read_line, row)) for row in child.iterfind(".//row", BOOK))
        elif tag in {"para", "figure", "equation"} and read_line(child):
            yield read_line(child)


def read_line(element: ElementTree.Element | None) -> str:
    """Return the text of an element on one line; empty without one."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def split_front_matter(text: str) -> tuple[str, str, str]:
    """Return the front matter's title and summary, each empty without one, and the text below."""
    found = re.match(r"---\n(.*?)\n---\n", text, flags=re.S)
    if not found:
        return "", "", text
    fields = yaml.safe_load(found[1])
    return str(fields.get("title", "")), str(fields.get("summary", "")), text[found.end() :]


def slug(title: str) -> str:
    """Return a title as a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


PREPARATIONS: dict[str, Callable[[Files], Files]] = {
    "abroad-es": name_markdown,
    "abroad-pt": name_markdown,
    "api": prepare_api,
    "cli": prepare_cli,
    "config": prepare_config,
    "dccode": prepare_dccode,
    "diy": prepare_diy,
    "games": prepare_games,
    "gardens-breed": name_markdown,
    "gardens-til": prepare_til,
    "guides": prepare_guides,
    "household": prepare_household,
    "lsr": prepare_lsr,
    "nursing": prepare_nursing,
    "proposals": prepare_proposals,
}


if __name__ == "__main__":
    main()
