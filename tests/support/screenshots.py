"""Take the screenshots of the documentation with headless Chromium. Run by ``make screenshots``.

Light ones are written to ``docs/images``, dark ones to ``build/screenshots``, to be looked at.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import io
import threading
from collections.abc import Iterator
from pathlib import Path

from browser import Browser, browsing
from live_server import serving_engine
from PIL import Image

from proxy_engine import InferenceEngine

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
TARGETS = {"light": ROOT / "docs" / "images", "dark": ROOT / "build" / "screenshots"}
SIZE = (1280, 980)
PROMPT = "Describe Lima, the capital of Peru, as JSON. Think in one sentence first."
NOTEBOOK = "notebooks/tools.html"
# Scrolls to the first result that shows the tokens of its output.
RESULT = """
const cell = document.querySelector('.jp-Cell details').closest('.jp-Cell');
scrollTo(0, cell.getBoundingClientRect().top + scrollY - 130)"""


STILL = """
document.documentElement.style.scrollbarWidth = 'none';
document.head.append(Object.assign(document.createElement('style'),
    {textContent: '* { transition: none !important }'}));
"""


@contextlib.contextmanager
def serving_files(directory: Path) -> Iterator[str]:
    """The URL of a directory."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def save(browser: Browser, name: str, url: str = "", script: str = "") -> None:
    """Write a light and a dark screenshot of the window, in 256 colours.

    Args:
        browser: The window.
        name: The name of the file.
        url: The page to open. Default: the page that is open.
        script: Run in the page that was opened.
    """
    for scheme, directory in TARGETS.items():
        feature = {"name": "prefers-color-scheme", "value": scheme}
        emulated = {"features": [feature]}
        browser.command("goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params=emulated)
        if url:
            browser.open(url)
            browser.run(STILL + script)
        browser.wait_for(f"return matchMedia('(prefers-color-scheme: {scheme})').matches")
        directory.mkdir(parents=True, exist_ok=True)
        image = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
        image.quantize(256, dither=Image.Dither.NONE).save(directory / name, optimize=True)


def main() -> None:
    with browsing(*SIZE) as browser:
        with InferenceEngine() as engine, serving_engine(engine) as live:
            browser.open(live.url)
            browser.run(
                "document.querySelector('#prompt').value = arguments[0];"
                "document.querySelector('#reasoning').value = 'must';"
                "document.querySelector('#run').click()",
                PROMPT,
            )
            done = "return document.querySelector('#status').innerText.includes('Done')"
            browser.wait_for(done, seconds=120)
            save(browser, "page.png")
        with serving_files(SITE) as url:
            save(browser, "notebook.png", f"{url}/{NOTEBOOK}", RESULT)


if __name__ == "__main__":
    main()
