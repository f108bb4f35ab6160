"""Read the options of a rule: ``[lazy, capture="x", max_tokens=5]``."""

from __future__ import annotations

import re

from state_machines.context_free.notations.lark.item_reader import ItemReader
from state_machines.context_free.notations.lark.syntax import Text
from state_machines.syntax_tree import Expression

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")

_MIN_TEMPERATURE, _MAX_TEMPERATURE = 1e-5, 100
"""The range of temperatures above 0, as samplers have it."""


class OptionReader:
    """Reads the options of one rule, behind the opening bracket.

    Args:
        reader: The reader of the grammar.
        rule: The name of the rule, which is the default of ``capture``.
    """

    def __init__(self, reader: ItemReader, rule: str) -> None:
        self._reader = reader
        self._rule = rule
        self.capture: str | None = None
        self.max_tokens: int | None = None
        self.temperature: float | None = None
        self.is_lazy = False
        self.ending: Expression | None = None
        self.is_stop = False
        self._given: set[str] = set()

    def read(self) -> None:
        reader = self._reader
        while True:
            reader.skip_lines()
            if reader.take("]"):
                return
            start = reader.position
            word = _NAME.match(reader.text, start)
            if word is None:
                reader.invalid("an option of the rule was expected", start)
            reader.position = word.end()
            reader.skip_lines()
            self._option(word[0], start, has_value=reader.take("="))
            reader.skip_lines()
            if not reader.take(",") and not reader.peek("]"):
                reader.invalid("missing ] behind the options of a rule", reader.position)

    def _option(self, name: str, start: int, *, has_value: bool) -> None:
        reader = self._reader
        if name in self._given:
            reader.invalid(f"the option {name!r} is given twice", start)
        self._given.add(name)
        if has_value:
            reader.skip_lines()
        match name:
            case "capture":
                self.capture = reader.option_string() if has_value else self._rule
            case "lazy" if not has_value:
                self.is_lazy = True
            case "stop" | "suffix" if has_value:
                if {"stop", "suffix"} <= self._given:
                    reader.invalid("stop and suffix exclude each other", start)
                self._ending(name)
            case "max_tokens" if has_value:
                self.max_tokens = int(self._number(start, whole=True))
            case "temperature" if has_value:
                self.temperature = float(self._number(start, whole=False))
                if self.temperature > _MAX_TEMPERATURE or 0 < self.temperature < _MIN_TEMPERATURE:
                    reader.invalid(
                        f"the temperature is neither 0 nor in [{_MIN_TEMPERATURE}, "
                        f"{_MAX_TEMPERATURE}]",
                        start,
                    )
            case "stop_capture":
                reader.unsupported(
                    "the option stop_capture", start, "Capture a rule of its own behind this one"
                )
            case "capture" | "lazy" | "stop" | "suffix" | "max_tokens" | "temperature":
                reader.invalid(
                    f"the option {name!r} {'takes no' if has_value else 'needs a'} value"
                )
            case _:
                reader.invalid(
                    f"there is no option {name!r} of rules",
                    start,
                    "Known are capture, lazy, max_tokens, stop, suffix and temperature",
                )

    def _ending(self, name: str) -> None:
        ending = self._reader.item()
        if isinstance(ending, Text) and ending.source in ('""', "//"):
            return  # The end of the text, which ends every lexeme.
        self.ending = ending
        self.is_lazy = True
        self.is_stop = name == "stop"

    def _number(self, start: int, *, whole: bool) -> str:
        reader = self._reader
        found = _NUMBER.match(reader.text, reader.position)
        if found is None or len(found[0]) > 12 or (whole and not found[0].isdigit()):
            reader.invalid("a number was expected" if not whole else "a count was expected", start)
        reader.position = found.end()
        return found[0]
