"""Exhaustive reference implementation of compositions of parts and of their attribution.

Texts are written with one character for each special token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from state_machines.root import (
    Choice,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
    SubState,
    Text,
)

__all__ = ["END", "END_NAME", "SPECIAL", "SPECIAL_NAME", "Reference", "as_bytes"]

SPECIAL, SPECIAL_NAME = "\ue001", "ba"
END, END_NAME = "\ue002", "<a<"


def as_bytes(text: str) -> bytes:
    """Return a text as a vocabulary has it."""
    return b"".join(
        b"\xff" + SPECIAL_NAME.encode() if letter == SPECIAL else letter.encode() for letter in text
    )


def spelled(text: str) -> str:
    return re.sub(
        f"{re.escape(END_NAME)}|{re.escape(SPECIAL_NAME)}",
        lambda match: END if match[0] == END_NAME else SPECIAL,
        text,
    )


class Bare:
    """A sub-state or text without its delimiters."""

    def __init__(self, part: Any) -> None:
        self.part = part


class Rounds:
    """The rounds of a loop that are left."""

    def __init__(self, loop: Repeat, least: int, most: int | None, is_first: bool) -> None:
        self.loop, self.min_count, self.max_count, self.is_first = loop, least, most, is_first

    def next(self, todo: tuple[Any, ...]) -> tuple[Any, ...]:
        most = None if self.max_count is None else self.max_count - 1
        left = Rounds(self.loop, max(self.min_count - 1, 0), most, False)
        between = self.loop.between
        before = () if self.is_first or between is None else (between,)
        return (*before, self.loop.part, left, *todo)


class Run:
    """A free text that has just ended, with the markers that must not occur across its end."""

    def __init__(self, start: int, strings: list[str], first: set[str]) -> None:
        self.start, self.strings, self.first = start, strings, first

    def ends_with(self, text: str, marker: str, end: int) -> bool:
        """Whether a marker is the first string to end; of several, the longest."""
        for stop in range(self.start + 1, end + 1):
            ending = [s for s in self.strings if text[self.start : stop].endswith(s)]
            if ending:
                begins = any(
                    text.startswith(f, self.start) and self.start + len(f) < stop
                    for f in self.first
                )
                return not begins and stop == end and max(ending, key=len) == marker
        return False


class Reference:
    """Reads whole texts. ``patterns`` are those of the sub-states, by identity."""

    def __init__(self, part: Part, patterns: dict[int, str]) -> None:
        self.part = part
        self.patterns = patterns
        self.delimited: dict[int, tuple[Any, ...]] = {}
        self.between: set[int] = set()

    def reading(self, text: str) -> list[tuple[Any, str]] | None:
        """Return the preferred reading of a text, neighbours of one part put together."""
        for pieces in self.at_place(text, 0, (self.part,)):
            joined: list[tuple[Any, str]] = []
            for part, own in pieces:
                if not own and isinstance(part, Text | Marker):
                    continue
                if joined and joined[-1][0] is part:
                    joined[-1] = (part, joined[-1][1] + own)
                else:
                    joined.append((part, own))
            return joined
        return None

    def at_place(self, text: str, at: int, todo: tuple[Any, ...]) -> Iterator[list[Any]]:
        yield from self.read(text, at, todo, self.beginnings(todo), None, None)

    def read(
        self,
        text: str,
        at: int,
        todo: tuple[Any, ...],
        first: set[str],
        run: Run | None,
        only_plain: bool | None,
    ) -> Iterator[list[Any]]:
        """Yield readings, preferred first; after a text, those with a plain marker or the others."""
        if not todo:
            if at == len(text) and not only_plain:
                yield []
            return
        head, rest = todo[0], todo[1:]
        if not isinstance(head, Marker | Bare):
            for way in self.unfolded(head, rest):
                yield from self.read(text, at, way, first, run, only_plain)
        elif isinstance(head, Marker):
            for end in self.ends_of(head, text, at, run, only_plain):
                if spelled(head.text).endswith(END) and end != len(text):
                    continue
                for pieces in self.at_place(text, end, rest):
                    yield [(head, text[at:end]), *pieces]
        elif isinstance(head.part, Text):
            if run is None:
                yield from self.texts(text, at, head.part, rest, first)
            elif head.part.min_chars == 0:
                yield from self.read(text, at, rest, first, run, only_plain)
        else:
            for end in range(len(text), at - 1, -1):
                own = text[at:end]
                if not re.fullmatch(self.patterns[id(head.part)], own):
                    continue
                if run is not None and not own:
                    for pieces in self.read(text, at, rest, first, run, only_plain):
                        yield [(head.part, ""), *pieces]
                elif not only_plain:
                    for pieces in self.at_place(text, end, rest):
                        yield [(head.part, own), *pieces]

    def unfolded(self, part: Any, rest: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        match part:
            case Series():
                yield (*part.parts, *rest)
            case Choice():
                for option in part.options:
                    yield (option, *rest)
            case Optional():
                yield (part.part, *rest)
                yield rest
            case Repeat():
                if isinstance(part.between, Marker):
                    self.between.add(id(part.between))
                yield (Rounds(part, part.min_count, part.max_count, True), *rest)
            case Rounds():
                if part.max_count != 0:
                    yield part.next(rest)
                if part.min_count == 0:
                    yield rest
            case SubState() | Text():
                inner = self.delimited.get(id(part))
                if inner is None:
                    name = part.name
                    begin = (Marker(name, part.begin),) if part.begin else ()
                    end = (Marker(name, part.end),) if part.end else ()
                    stop = part.stop if isinstance(part, Text) else ()
                    stops = (Optional(Choice(*(Marker(name, s) for s in stop))),) if stop else ()
                    inner = self.delimited[id(part)] = (*begin, Bare(part), *stops, *end)
                yield (*inner, *rest)

    def ends_of(
        self, marker: Marker, text: str, at: int, run: Run | None, only_plain: bool | None
    ) -> Iterator[int]:
        form = spelled(marker.text)
        is_plain = SPECIAL not in form and END not in form
        if run is not None and only_plain:
            end = at + len(marker.text)
            if text.startswith(marker.text, at) and run.ends_with(text, marker.text, end):
                yield end
        elif (run is None or not is_plain) and text.startswith(form.removesuffix(END), at):
            yield at + len(form.removesuffix(END))

    def texts(
        self, text: str, at: int, part: Text, rest: tuple[Any, ...], first: set[str]
    ) -> Iterator[list[Any]]:
        openers = [marker.text for marker in self.markers(rest, True)]
        run = Run(at, [*part.excluding, *openers], first)
        for only_plain in (True, False):
            for end in range(len(text), at - 1, -1):
                own = text[at:end]
                if (
                    len(own) < part.min_chars
                    or (part.max_chars is not None and len(own) > part.max_chars)
                    or SPECIAL in own
                    or any(string in own for string in run.strings)
                    or any(own.startswith(f) for f in first)
                ):
                    continue
                for pieces in self.read(text, end, rest, first, run, only_plain):
                    yield [(part, own), *pieces]

    def markers(self, todo: tuple[Any, ...], is_after_text: bool) -> Iterator[Marker]:
        """Yield the markers that may come first."""
        for marker, _ in self.markers_and_rest(todo, is_after_text):
            yield marker

    def markers_and_rest(
        self, todo: tuple[Any, ...], is_after_text: bool
    ) -> Iterator[tuple[Marker, tuple[Any, ...]]]:
        if not todo:
            return
        head, rest = todo[0], todo[1:]
        if isinstance(head, Marker):
            yield head, rest
        elif isinstance(head, Bare):
            if is_after_text and (
                head.part.min_chars == 0
                if isinstance(head.part, Text)
                else re.fullmatch(self.patterns[id(head.part)], "")
            ):
                yield from self.markers_and_rest(rest, True)
        else:
            for way in self.unfolded(head, rest):
                yield from self.markers_and_rest(way, is_after_text)

    def beginnings(self, todo: tuple[Any, ...]) -> set[str]:
        """Return what no text at this place begins with."""
        found = set()
        for marker, rest in self.markers_and_rest(todo, False):
            if spelled(marker.text) != marker.text:
                continue
            if id(marker) in self.between:
                found |= {marker.text + beyond for beyond in self.beginnings(rest)}
            else:
                found.add(marker.text)
        return found
