"""Write the pictures of the web page in docs/guide: three questions to free documents of others, in a real browser.

    uv run --group dev scripts/write_screenshots.py CORPORA

`CORPORA` holds the folders fastapi (the documentation of FastAPI, MIT), rustbook (The Rust Programming Language, MIT or
Apache-2.0) and fastify (the documentation of Fastify, MIT), or links to them. Nothing is fetched from elsewhere.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
PROGRAM = [sys.executable, str(ROOT / "hybrid_retrieve.py")]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
# file in docs/guide -> folder, address, colours, width and height
PICTURES = {
    "web-answer.png": ("fastapi", f"/?question={quote('how do I declare a header parameter?')}", "light", (1280, 820)),
    "web-reading.png": ("rustbook", f"/?question={quote('what is ownership?')}", "dark", (1280, 820)),
    "web-phone.png": ("fastify", f"/?question={quote('how do I set the body limit?')}", "light", (420, 820)),
}
MAX_BYTES = 200_000


def take_picture(
    browser: Browser, folder: Path, address: str, colors: str, size: tuple[int, int], target: Path
) -> None:
    """Index a folder, serve it and take a picture of one page."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([*PROGRAM, "index", folder, "--index", place, "-q"], check=True, stdout=subprocess.DEVNULL)
        serve = [*PROGRAM, "serve", "--web", "--port", "0", "--index", place]
        with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                found = next(filter(None, (re.search(r"(http://\S+)/", line) for line in server.stderr)))
                page = browser.new_page(
                    viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if colors == "dark" else "light"
                )
                page.goto(found[1] + address)
                page.locator("section.answer").wait_for()
                page.reload()  # the models are loaded now
                page.evaluate("document.activeElement.blur()")
                page.screenshot(path=target)
                page.close()
            finally:
                server.terminate()
    assert target.stat().st_size < MAX_BYTES, f"{target} has {target.stat().st_size:,} bytes"


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    corpora = parser.parse_args().corpora
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, (folder, address, colors, size) in PICTURES.items():
            take_picture(browser, corpora / folder, address, colors, size, ROOT / "docs/guide" / name)
        browser.close()


if __name__ == "__main__":
    main()
