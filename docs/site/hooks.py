"""Hooks of MkDocs: pages from outside of ``docs``, links that leave it, and heads of columns.

Links in the sources are paths in the repository, so that they work on GitHub. The site has the
files of ``docs``, ``CHANGELOG.md`` and ``CONTRIBUTING.md``; links to other files lead to GitHub.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
INCLUDED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_SOURCES = {page: source for source, page in INCLUDED.items()}
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FILE_NAME = re.compile(r"(?:[\w.-]+/)*[\w-]+\.md")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside of ``docs``."""
    for source, page in INCLUDED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links that leave ``docs``, link texts that are file names, and indentation."""
    path = page.file.src_uri
    source = _SOURCES.get(path, f"docs/{path}")

    def replace(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        if "://" in target:
            return link[0]
        url = site_link(target, source, path, str(config.repo_url))
        file = files.get_file_from_path(posixpath.normpath(posixpath.join(path, "..", url)))
        if _FILE_NAME.fullmatch(text) and file is not None and file.page is not None:
            text = str(file.page.title)
        return f"[{text}]({url}{anchor or ''})"

    pieces = _CODE.split(markdown)
    pieces[::2] = [_LINK.sub(replace, text) for text in pieces[::2]]
    return indented("".join(pieces))


def on_page_content(html: str, **_: object) -> str:
    """Write the heads of inner columns into the cells: phones show the cells below each other."""
    return _TABLE.sub(with_heads, html)


def with_heads(table: re.Match[str]) -> str:
    """Add ``data-head`` to the cells of a table between the first and the last column."""
    heads = [re.sub("<[^>]+>", "", head).strip() for head in _HEAD.findall(table[0])]

    def row(cells: re.Match[str]) -> str:
        columns = iter(range(len(heads)))

        def cell(start: re.Match[str]) -> str:
            column = next(columns, 0)
            is_inner = 0 < column < len(heads) - 1 and heads[column]
            return f'<td data-head="{heads[column]}"' if is_inner else start[0]

        return re.sub(r"<td\b", cell, cells[0])

    return re.sub(r"<tr\b.*?</tr>", row, table[0], flags=re.DOTALL)


def indented(markdown: str) -> str:
    """Indent paragraphs in ordered lists by four columns, as Python-Markdown expects.

    GitHub takes three. Outside of lists no text or code of the documents is indented by three.
    """
    lines = []
    is_code = is_moved = False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            is_moved = (not is_code and line.startswith("   `")) or (is_code and is_moved)
            lines.append(" " + line if is_moved else line)
            is_code = not is_code
        elif is_code:
            lines.append(" " + line if is_moved and line else line)
        else:
            lines.append(re.sub(r"^ {3}(?=\S)", " " * 4, line))
    return "\n".join(lines)


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
