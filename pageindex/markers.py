"""The files by which the programs that read a folder are known."""

import fnmatch
import os
from contextlib import suppress
from pathlib import Path

LEVELS_ABOVE = 3  # folders above an indexed one in which a marker counts: `site/docs` below `site/mkdocs.yml`

# Of each dialect, the files and folders that only its program has, as patterns; `a & b` are both needed. The first that
# is there counts: a book of Jupyter has a `_config.yml`, as a site of Jekyll has.
MARKERS = {
    "obsidian": (".obsidian",),
    "logseq": ("logseq/config.edn",),
    "mkdocs": ("mkdocs.y*ml", "zensical.toml"),
    "mdbook": ("book.toml",),
    "myst": ("conf.py", "_config.yml & _toc.yml", "myst.yml"),
    "hugo": ("hugo.toml", "hugo.y*ml", "hugo.json", "config.toml & content", "config/_default"),
    "jekyll": ("_config.y*ml",),
    "docusaurus": ("docusaurus.config.*", "astro.config.*", "docs.json", "mint.json"),
    "vitepress": (".vitepress", ".vuepress"),
    "quarto": ("_quarto.y*ml",),
}
DIALECT_OF = {marker: dialect for dialect, markers in MARKERS.items() for marker in markers}


def find_dialect(folder: Path) -> str:
    """Return the name of the dialect of an indexed folder: that of the nearest marker, in it or above it."""
    for place in (folder, *folder.parents[:LEVELS_ABOVE]):
        with suppress(OSError):
            names = os.listdir(place)  # noqa: PTH208 - names are all that is looked at
            for marker, dialect in DIALECT_OF.items():
                is_there = all(fnmatch.filter(names, part) or (place / part).exists() for part in marker.split(" & "))
                # An extension: Sphinx reads other kinds, too.
                if is_there and (marker != "conf.py" or "myst" in (place / marker).read_text("utf-8", "replace")):
                    return dialect
            if ".git" in names:  # nothing above a repository counts
                break
    return "commonmark"
