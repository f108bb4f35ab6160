"""Grammars with texts: a directory for each, in GBNF and in Lark.

``grammar.gbnf`` and ``grammar.lark`` of a directory admit the same texts, which are its ``*.txt``.
The grammar ``log`` is the warm-up: its terminals occur in no other grammar.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NAMES", "NOTATIONS", "GrammarCase", "further_cases", "load_cases", "warm_up_case"]

NAMES = ("json", "arithmetic", "sums", "chess", "sql", "graphql", "python", "c", "c99")
"""Directories of the grammars that are measured."""

NOTATIONS = ("gbnf", "lark")

_FOLDER = Path(__file__).parent
_WARM_UP = "log"


@dataclass(frozen=True)
class GrammarCase:
    """A grammar with texts that it admits.

    Attributes:
        name: The name in tables.
        notation: ``gbnf`` or ``lark``.
        grammar: The grammar in this notation.
        texts: The texts by name.
    """

    name: str
    notation: str
    grammar: str
    texts: dict[str, str]


def load_cases(
    names: Iterable[str] = NAMES, notations: Iterable[str] = NOTATIONS
) -> list[GrammarCase]:
    """Return the cases of these directories, each in these notations."""
    notations = tuple(notations)
    return [_case(name, notation) for name in names for notation in notations]


def warm_up_case(notation: str) -> GrammarCase:
    """Return the grammar that is compiled and walked before a measurement."""
    return _case(_WARM_UP, notation)


def further_cases(folder: Path) -> list[GrammarCase]:
    """Return a case for each ``NAME.gbnf`` of a directory that has texts.

    The texts are ``NAME/*.txt`` there, or else those of the directory ``shipped/NAME`` beside this
    module, whose texts suit the grammars that llama.cpp ships, or else of ``NAME``.
    """
    cases = []
    for file in sorted(folder.glob("*.gbnf")):
        folders = (place / file.stem for place in (folder, _FOLDER / "shipped", _FOLDER))
        texts = next(filter(None, map(_texts, folders)), {})
        if texts:
            grammar = file.read_text(encoding="utf-8")
            cases.append(GrammarCase(f"{folder.name}/{file.stem}", "gbnf", grammar, texts))
    return cases


def _case(name: str, notation: str) -> GrammarCase:
    folder = _FOLDER / name
    grammar = (folder / f"grammar.{notation}").read_text(encoding="utf-8")
    return GrammarCase(name, notation, grammar, _texts(folder))


def _texts(folder: Path) -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))}
