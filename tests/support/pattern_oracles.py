"""The readers of patterns, each as a function that says in which texts a pattern is found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from pydantic import Field, TypeAdapter
from pydantic_core import SchemaError

from state_machines.grammar.node import Node

NODE = shutil.which("node")

_LOOP = """
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [pattern, texts] = JSON.parse(line);
  let answer = null;
  try {
    const matcher = new RegExp(pattern, "u");
    answer = texts.map((text) => matcher.test(text));
  } catch {}
  console.log(JSON.stringify(answer));
});
"""


def spells(node: Node, text: str) -> bool:
    """Return whether a language of code points contains a text."""
    for character in text:
        point = ord(character)
        found = [target for members, target in node.transitions if point in members]
        if not found:
            return False
        (node,) = found
    return node.nullable


def rust_finds(pattern: str, texts: Sequence[str]) -> list[bool] | None:
    """Return in which texts pydantic finds a pattern; ``None`` if it refuses the pattern."""
    try:
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, Field(pattern=pattern)])
    except SchemaError:
        return None
    return [adapter.validator.isinstance_python(text) for text in texts]


def python_finds(pattern: str, texts: Sequence[str], flags: int = 0) -> list[bool] | None:
    """Return in which texts ``re`` finds a pattern; ``None`` if it refuses the pattern."""
    try:
        matcher = re.compile(pattern, flags)
    except re.error:
        return None
    return [matcher.search(text) is not None for text in texts]


class JavaScript:
    """A process of Node that matches patterns with the flag ``u``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def finds(self, pattern: str, texts: Sequence[str]) -> list[bool] | None:
        """Return in which texts the pattern is found; ``None`` if it is refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([pattern, texts]) + "\n")
        self._process.stdin.flush()
        answer: list[bool] | None = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def javascript() -> Iterator[JavaScript]:
    assert NODE is not None
    with subprocess.Popen(
        [NODE, "-e", _LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield JavaScript(process)
        assert process.stdin is not None
        process.stdin.close()
