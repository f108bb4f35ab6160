"""Hooks of MkDocs: pages from outside of ``docs``, and links that leave it.

Links in the sources are paths in the repository, so that they work on GitHub. The site has the files
of ``docs``, ``CHANGELOG.md`` and ``CONTRIBUTING.md``; a link to another file becomes one to GitHub.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
INCLUDED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_SOURCES = {page: source for source, page in INCLUDED.items()}
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside of ``docs``."""
    for source, page in INCLUDED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Replace links that leave ``docs``."""
    path = page.file.src_uri
    source = _SOURCES.get(path, f"docs/{path}")

    def replace(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        if "://" in target:
            return link[0]
        return before + site_link(target, source, path, str(config.repo_url)) + after

    pieces = _CODE.split(markdown)
    pieces[::2] = [_LINK.sub(replace, text) for text in pieces[::2]]
    return "".join(pieces)


def site_link(target: str, source: str, page: str, repository: str) -> str:
    """Return a link of the site for a path in the repository.

    Args:
        target: The path, relative to ``source``.
        source: The file with the link, relative to the repository.
        page: The page of ``source``, relative to the site.
        repository: The URL of the repository.
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    inside = INCLUDED.get(path, path.removeprefix("docs/"))
    is_directory = (ROOT / path).is_dir()
    if path in INCLUDED or (path.startswith("docs/") and not is_directory):
        return posixpath.relpath(inside, posixpath.dirname(page) or ".")
    return f"{repository}/{'tree' if is_directory else 'blob'}/main/{path}"
