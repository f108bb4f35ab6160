"""Reference recogniser for context-free grammars: a chart parser, and grammars as data and GBNF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

Tree: TypeAlias = Any
"""``("text", s)``, ``("set", s)``, ``("not", s)``, ``("rule", name)``, ``("all", *trees)``,
``("any", *trees)`` or ``("times", tree, least, most)``."""


def quoted(text: str) -> str:
    """Return a text as GBNF."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def written(tree: Tree, write_text: Callable[[str], str] = quoted) -> str:
    """Return a tree as GBNF, or in a notation that writes texts in another way."""
    match tree:
        case ("text", text):
            return write_text(text)
        case ("set", members):
            return f"[{members}]"
        case ("not", members):
            return f"[^{members}]"
        case ("rule", name):
            return str(name)
        case ("all", *parts):
            return "(" + " ".join(written(part, write_text) for part in parts) + ")"
        case ("any", *parts):
            return "(" + " | ".join(written(part, write_text) for part in parts) + ")"
        case ("times", body, least, most):
            marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
            bounds = f"{{{least},{'' if most is None else most}}}"
            return f"({written(body, write_text)}){marks.get((least, most), bounds)}"
    raise AssertionError(tree)


@dataclass(frozen=True)
class Grammar:
    """Rules by name; texts match ``root``."""

    rules: dict[str, Tree]

    @property
    def text(self) -> str:
        return "\n".join(f"{name} ::= {written(tree)}" for name, tree in self.rules.items())

    def productive(self) -> set[str]:
        """Return the names of the rules that match some text."""
        found: set[str] = set()
        while True:
            more = {name for name, tree in self.rules.items() if _says(tree, found)}
            if more == found:
                return found
            found = more


def _says(tree: Tree, found: set[str]) -> bool:
    match tree:
        case ("rule", name):
            return name in found
        case ("all", *parts):
            return all(_says(part, found) for part in parts)
        case ("any", *parts):
            return any(_says(part, found) for part in parts)
        case ("times", body, least, _):
            return least == 0 or _says(body, found)
    return True


class Chart:
    """The matches of all rules of a grammar at every position of a text.

    The sets grow to their least fixed point, which left recursion does not disturb.
    """

    def __init__(self, grammar: Grammar, text: str) -> None:
        self.grammar = grammar
        self.text = text
        self.productive = grammar.productive()
        places = range(len(text) + 1)
        self.ends: dict[tuple[str, int], set[int]] = {
            (name, at): set() for name in grammar.rules for at in places
        }
        self.open: set[tuple[str, int]] = set()
        """Start positions of a rule's text that may extend beyond the end of this one."""
        grown = True
        while grown:
            grown = False
            for (name, at), known in self.ends.items():
                more = self._ends(grammar.rules[name], at)
                grown = grown or not more <= known
                known |= more
                if (name, at) not in self.open and self._runs_out(grammar.rules[name], at):
                    self.open.add((name, at))
                    grown = True

    @property
    def is_word(self) -> bool:
        return len(self.text) in self.ends["root", 0]

    @property
    def is_beginning(self) -> bool:
        return ("root", 0) in self.open

    def _ends(self, tree: Tree, at: int) -> set[int]:
        match tree:
            case ("text", text):
                return {at + len(text)} if self.text.startswith(text, at) else set()
            case ("set", members):
                return {at + 1} if self.text[at : at + 1] in list(members) else set()
            case ("not", members):
                return {at + 1} if at < len(self.text) and self.text[at] not in members else set()
            case ("rule", name):
                return self.ends[name, at]
            case ("all", *parts):
                found = {at}
                for part in parts:
                    found = {end for place in found for end in self._ends(part, place)}
                return found
            case ("any", *parts):
                return {end for part in parts for end in self._ends(part, at)}
            case ("times", body, least, most):
                return self._rounds(body, at, least, most)[0]
        raise AssertionError(tree)

    def _rounds(
        self, body: Tree, at: int, least: int, most: int | None
    ) -> tuple[set[int], set[int]]:
        """Return where rounds of a repetition may end, and where one more may begin."""
        limit = least + len(self.text) + 1 if most is None else most
        ends, begins, layer = set(), set(), {at}
        for count in range(limit + 1):
            if count >= least:
                ends |= layer
            if count < limit:
                begins |= layer
            layer = {end for place in layer for end in self._ends(body, place)}
        return ends, begins

    def _runs_out(self, tree: Tree, at: int) -> bool:
        """Whether the rest of the text is a beginning of one of a tree's."""
        rest = self.text[at:]
        match tree:
            case ("text", text):
                return str(text).startswith(rest)
            case ("set" | "not", _):
                return not rest or bool(len(rest) == 1 and self._ends(tree, at))
            case ("rule", name):
                return (name, at) in self.open
            case ("all", *parts):
                if not _says(tree, self.productive):
                    return False
                places = {at}
                for part in parts:
                    if any(self._runs_out(part, place) for place in places):
                        return True
                    places = {end for place in places for end in self._ends(part, place)}
                return len(self.text) in places
            case ("any", *parts):
                return any(self._runs_out(part, at) for part in parts)
            case ("times", body, least, most):
                if not _says(tree, self.productive):
                    return False
                ends, begins = self._rounds(body, at, least, most)
                if len(self.text) in ends:
                    return True
                return any(self._runs_out(body, place) for place in begins)
        raise AssertionError(tree)


LETTERS = "abé"
NAMES = ("root", "x", "y-1", "z_2")


def _trees() -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.text(LETTERS, max_size=2).map(lambda text: ("text", text)),
        st.sampled_from(["a", "ab", "é", "aé"]).map(lambda members: ("set", members)),
        st.sampled_from(["a", "bé"]).map(lambda members: ("not", members)),
        st.sampled_from(NAMES).map(lambda name: ("rule", name)),
        st.sampled_from(NAMES).map(lambda name: ("rule", name)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: ("all", *parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("any", *parts)),
            st.tuples(
                st.just("times"),
                inner,
                st.just(0),
                st.sampled_from([None, 0, 1, 2]),
            ),
            st.tuples(st.just("times"), inner, st.just(1), st.sampled_from([None, 1, 2])),
            st.tuples(st.just("times"), inner, st.just(2), st.sampled_from([None, 2, 3])),
        ),
        max_leaves=5,
    )


def grammars() -> st.SearchStrategy[Grammar]:
    """Draw grammars of a few rules that call one another in any way."""
    return st.fixed_dictionaries({name: _trees() for name in NAMES}).map(Grammar)
