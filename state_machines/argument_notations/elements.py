"""Read nested elements, whose closing tags repeat their names."""

from __future__ import annotations

from typing import TypeAlias

Element: TypeAlias = "str | list[tuple[str, Element]]"
"""The text of an element, or its members by name."""

MAX_ELEMENT_DEPTH = 128
"""Nesting above which a text is refused; vLLM's parser has the same bound."""


class ElementReader:
    """Reads elements that begin with a mark.

    Args:
        mark: The text before each tag.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def members(self, text: str, at: int, depth: int = 1) -> tuple[list[tuple[str, Element]], int]:
        """Return the elements from a position on, and the position after the last one.

        Raises:
            ValueError: An element does not end, or the elements are nested too deeply.
        """
        if depth > MAX_ELEMENT_DEPTH:
            raise ValueError("nested too deeply")
        found: list[tuple[str, Element]] = []
        begin = f"{self._mark}<"
        while text.startswith(begin, at) and not text.startswith("/", at + len(begin)):
            start = at + len(begin)
            end_of_name = text.find(">", start)
            if end_of_name < 0:
                raise ValueError("a tag does not end")
            name = text[start:end_of_name]
            element, at = self._element(text, end_of_name + 1, name, depth)
            found.append((name, element))
        return found, at

    def _element(self, text: str, at: int, name: str, depth: int) -> tuple[Element, int]:
        closing = f"{self._mark}</{name}>"
        mark = text.find(self._mark, at)
        if mark < 0:
            raise ValueError(f"the element {name!r} does not end")
        content: Element = text[at:mark]
        if not text.startswith(closing, mark):
            inner, end = self.members(text, mark, depth + 1)
            if text[at:mark].strip() or not inner or not text.startswith(closing, end):
                raise ValueError(f"the element {name!r} does not end")
            content, mark = inner, end
        return content, mark + len(closing)
