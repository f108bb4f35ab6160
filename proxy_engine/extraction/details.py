"""Columns about how an answer was generated: truncation, tokens, confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ..checks import short_repr
from ..errors import InvalidOptionError
from ..results.parts import CutShort
from .field_quotes import FieldQuotes

if TYPE_CHECKING:
    from ..results.generation import GenerationResult

RESULT = "result"
"""The column of answers that are no objects with known properties."""

DetailColumns: TypeAlias = Literal["tokens", "cut_short", "confidence"]
"""A group of columns.

``"tokens"``: ``prompt_tokens`` and ``completion_tokens``. ``"cut_short"``: ``cut_short``, why the
answer ended early, and ``cut_short_at``, the JSON Pointer of the value. ``"confidence"``: for each
property ``<property>_confidence``.
"""

DetailType: TypeAlias = Literal["integer", "number", "string"]
DEFAULT_COLUMNS: tuple[DetailColumns, ...] = ("cut_short",)
"""The columns of an extraction that names none."""

_CUT_SHORT = ("cut_short", "cut_short_at")
_NUMBER: DetailType = "number"
_TEXT: DetailType = "string"


@dataclass(frozen=True, slots=True)
class Details:
    """The columns about the generation of answers.

    Attributes:
        types: The types of the columns by name.
        pointers: The JSON Pointers of the columns of confidences, by name.
        prefix: The text before the names of columns.
        quoted: The JSON Pointers of the columns with quotes, by name.
        quotes: The quotes of the output.
    """

    types: Mapping[str, DetailType] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    quoted: Mapping[str, str] = field(default_factory=dict)
    quotes: FieldQuotes | None = None

    @classmethod
    def of(
        cls,
        columns: Sequence[DetailColumns],
        properties: Mapping[str, str],
        prefix: str,
        quotes: FieldQuotes | None,
    ) -> Details:
        """Return the columns.

        Args:
            columns: The groups of columns.
            properties: The JSON Pointers of the answer's properties, by the names of their columns.
            prefix: The text before the names of columns.
            quotes: The quotes of the output.

        Raises:
            InvalidOptionError: There is no such group.
        """
        known = get_args(DetailColumns)
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise InvalidOptionError(
                f"columns should be a list of names, not {short_repr(columns)}", option="columns"
            )
        for name in columns:
            if name not in known:
                raise InvalidOptionError(
                    f"there are no columns {short_repr(name)}",
                    option="columns",
                    hint=f"Choose among {', '.join(map(repr, known))}.",
                )
        pointers: dict[str, str] = {}
        columns_of_quotes = {} if quotes is None else quotes.columns(RESULT)
        quoted = {prefix + name: pointer for name, pointer in columns_of_quotes.items()}
        types: dict[str, DetailType] = dict.fromkeys(quoted, _TEXT)
        if "confidence" in columns:
            pointers = {f"{name}_confidence": pointer for name, pointer in properties.items()}
            types |= dict.fromkeys(pointers, _NUMBER)
        if "cut_short" in columns:
            types |= {prefix + name: _TEXT for name in _CUT_SHORT}
        if "tokens" in columns:
            types |= {prefix + name: "integer" for name in ("prompt_tokens", "completion_tokens")}
        return cls(types, pointers, prefix, quoted, quotes)

    def cut_short(self, result: GenerationResult[Any]) -> CutShort | None:
        """Return what cut an answer short, with the pointer in the answer."""
        cut = result.cut_short
        return None if cut is None else replace(cut, pointer=self._in_answer(cut.pointer))

    def earlier_cut(self, cells: Mapping[str, Any]) -> CutShort | None:
        """Return what cut an answer of an earlier run short, if its columns say so."""
        reason, pointer = (cells.get(self.prefix + name) for name in _CUT_SHORT)
        return None if reason is None else CutShort(pointer or "", reason)

    def members(self, cells: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of an answer that a row of JSON Lines has.

        As an error, what cut an answer short is a member of its row alone.
        """
        absent = {self.prefix + name for name in _CUT_SHORT}
        return {
            name: cell for name, cell in cells.items() if cell is not None or name not in absent
        }

    def cells(self, result: GenerationResult[Any]) -> dict[str, Any]:
        """Return the columns of an answer."""
        confidences = result.confidences() if self.pointers else {}
        cut, usage = self.cut_short(result), result.usage
        quotes = {} if self.quotes is None else self.quotes.cells(result.text, self.quoted)
        cells = {
            "cut_short": None if cut is None else cut.reason,
            "cut_short_at": None if cut is None else cut.pointer,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }
        scores = {name: confidences.get(pointer) for name, pointer in self.pointers.items()}
        named = {self.prefix + name: cell for name, cell in cells.items()} | scores | quotes
        return {name: named[name] for name in self.types}

    def _in_answer(self, pointer: str) -> str:
        """Return the pointer in the answer of a value in the output."""
        return pointer if self.quotes is None else self.quotes.answer_pointer(pointer)


NO_DETAILS = Details()


def is_limit(cut: CutShort | None) -> bool:
    """Whether a limit cut an answer short, rather than a value that repeated itself."""
    return cut is not None and cut.reason != "repetition"
