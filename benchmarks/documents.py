"""Ten of MaskBench's schemas, each with a document, chosen by a rule.

The rule: a document is the first valid instance of a schema that has ``CHARACTERS`` as
``json.dumps`` writes it. *Text-heavy* are those of whose characters at least ``TEXT_HEAVY`` are in
string values, *structure-heavy* those with at most ``STRUCTURE_HEAVY``; names count as structure.
Of each kind, in the order of the SHA-256 of the schemas' names, the first ``EACH`` are taken that
``admits`` agrees with, which asks the engines whether they can write the document at all.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

__all__ = [
    "CHARACTERS",
    "EACH",
    "PASSAGE",
    "STRING",
    "STRUCTURE_HEAVY",
    "TEXT_HEAVY",
    "Document",
    "choose",
    "free_string",
    "passage",
    "text_share",
]

EACH = 5
CHARACTERS = range(150, 601)
TEXT_HEAVY = 0.6
STRUCTURE_HEAVY = 0.25

PASSAGE = (
    "The ferry left the harbour a little after six, while the lamps along the quay were still lit. "
    "Nobody on deck spoke much. A woman in a green coat counted the crates again, wrote a number "
    "in her notebook, and crossed it out; two boys leaned over the rail to watch the water turn "
    "from black to grey. Behind the breakwater the wind was stronger than anyone had expected, and "
    "the captain, who had promised his brother to be back by noon, took the longer way around the "
    "island, past the old lighthouse and the fields of kelp. "
)
"""Text as a novel has it."""

STRING = "free string"
"""A third kind, of no schema of MaskBench."""

_KINDS = ("structure", "text")


@dataclass(frozen=True)
class Document:
    """A schema and a text that it allows. ``kind``: ``"structure"``, ``"text"``, ``STRING``."""

    name: str
    kind: str
    schema: Any
    text: str


def choose(data: Path, admits: Callable[[Document], bool], *, each: int = EACH) -> list[Document]:
    """Return up to ``each`` documents of each kind by the rule above."""
    candidates = sorted(_documents(data), key=lambda d: sha256(d.name.encode()).hexdigest())
    chosen = []
    for kind in _KINDS:
        found = (d for d in candidates if d.kind == kind and admits(d))
        chosen += [document for document, _ in zip(found, range(each), strict=False)]
    return chosen


def passage(tokenizer: TokenizerWrapper, tokens: int) -> str:
    """Return a text of about ``tokens`` tokens."""
    text = PASSAGE * (tokens // 20 + 1)
    ids = tokenizer.encode(text, add_special_tokens=False)[:tokens]
    return str(tokenizer.decode(ids)).strip()


def free_string(tokenizer: TokenizerWrapper, tokens: int) -> Document:
    """Return the document of schema ``{"type": "string"}`` with about ``tokens`` tokens."""
    return Document(
        "any string", STRING, {"type": "string"}, json.dumps(passage(tokenizer, tokens))
    )


def text_share(value: Any) -> float:
    """Return which part of a value's JSON text is characters of string values."""
    return _text_characters(value) / len(json.dumps(value, ensure_ascii=False))


def _text_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(json.dumps(value, ensure_ascii=False)) - 2
    if isinstance(value, dict):
        return sum(map(_text_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_text_characters, value))
    return 0


def _documents(data: Path) -> Iterator[Document]:
    with gzip.open(data, "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            for test in record["tests"]:
                text = json.dumps(test["data"], ensure_ascii=False)
                if test["valid"] and len(text) in CHARACTERS:
                    kind = _kind(text_share(test["data"]))
                    if kind:
                        yield Document(record["name"], kind, record["schema"], text)
                    break


def _kind(share: float) -> str:
    if share >= TEXT_HEAVY:
        return "text"
    return "structure" if share <= STRUCTURE_HEAVY else ""
