r"""Parse the expressions of lexemes in grammars of Lark's notation into syntax trees.

The syntax is that of Rust's ``regex`` crate (:mod:`state_machines.regex.rust_syntax`). A lexeme is
a whole text whose surroundings are not known, so ``^`` and ``\A`` at its start and ``$`` and ``\z``
at its end have no effect. All other assertions are refused, and so are lazy quantifiers, whose
meaning depends on what follows.
"""

from __future__ import annotations

import re

from state_machines.grammar.symbols import CodePointSet
from state_machines.limits import LIMITS
from state_machines.regex.parser import NO_PART
from state_machines.regex.rust_syntax import ASCII_CLASS, RustReader
from state_machines.regex.unicode_versions import NOTHING
from state_machines.syntax_tree import End, Expression, Repeat, Start


def parse(pattern: str, flags: str = "") -> Expression:
    r"""Return the syntax tree of a pattern for whole texts; it has no assertions.

    Args:
        pattern: The expression.
        flags: Flags that are set from the start, of ``imsux``.

    Raises:
        InvalidPatternError: The text is no regular expression.
        UnsupportedPatternError: It has an assertion, a lazy quantifier or a back-reference.
    """
    return _LexemeReader(pattern, flags).parse()


class _LexemeReader(RustReader):
    """Refuses what depends on the text around a lexeme."""

    flag_letters = frozenset("imsux")
    no_look_hint = "Terminals with & and ~ express conditions on the text of a lexeme"

    def term(self) -> Expression:
        start = self.position
        part = super().term()
        body = part.body if isinstance(part, Repeat) else part
        if isinstance(body, Start | End) and body is not part:
            self.invalid("a quantifier with nothing to repeat", start)
        if isinstance(part, Start):
            before = self.text[:start]
            if self.depth or "m" in self.flags or re.sub(r"\(\?[a-z]+\)", "", before):
                self.unsupported("an assertion", start, self.no_look_hint)
            return NO_PART
        if isinstance(part, End):
            if self.depth or "m" in self.flags or not self.at_end:
                self.unsupported("an assertion", start, self.no_look_hint)
            return NO_PART
        return part

    def append(self, parts: list[Expression], part: Expression) -> None:
        parts.append(part)

    def anchor(self, mark: str) -> Expression:
        return Start() if mark == "^" else End()

    def lazy(self, start: int) -> None:
        self.unsupported(
            "a lazy quantifier", start, "The rule option [lazy] makes a whole terminal lazy"
        )

    def bounds_of(self, braces: re.Match[str]) -> tuple[int, int | None]:
        for digits in (braces[1], braces[3] or ""):
            if len(digits) > 9 or int(digits or 0) > LIMITS.repetition_count:
                self.unsupported(
                    f"a count of more than {LIMITS.repetition_count:,}", braces.start()
                )
        return super().bounds_of(braces)

    def changed_flags(self, found: re.Match[str], start: int) -> frozenset[str]:
        flags = super().changed_flags(found, start)
        if "u" not in flags:
            self.unsupported("the flag -u", start, "Flags are i, m, s, u and x")
        return flags

    def word_edge(self, letter: str) -> Expression:
        self.unsupported("a word boundary", self.position - 2, self.no_look_hint)

    def nested_class(self, start: int) -> CodePointSet:
        named = ASCII_CLASS.match(self.text, start)
        if named is not None:
            self.invalid(f"there is no class [:{named[2]}:]", start)
        return super().nested_class(start)

    def dispute(self, name: str, value: str | None = None, sure: CodePointSet = NOTHING) -> None:
        """Lexemes have the Unicode version of this package."""
