"""Rows of an output file: other fields of the record, then the answer or the error."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from state_machines import JsonSchemaStateMachine

from ..errors import OutputValidationError, RecordError
from .answer_format import ERROR, AnswerFormat, jsonable
from .inputs import Item
from .json_members import encode, join_members

if TYPE_CHECKING:
    from .outcomes import Outcome


class Answer(NamedTuple):
    """The answer in a row.

    Attributes:
        value: Its parsed value.
        details: The columns about its generation.
    """

    value: Any
    details: Mapping[str, Any] = {}


class Written(NamedTuple):
    """The answer of a row that is written.

    Attributes:
        text: The answer as JSON.
        details: The columns about its generation.
    """

    text: str
    details: Mapping[str, Any] = {}


class Failure(NamedTuple):
    """The error in a row.

    Attributes:
        type: The name of the exception's class.
        message: Its message.
    """

    type: str
    message: str


Read: TypeAlias = Answer | Failure


class RowFormat(ABC):
    """Encodes rows, and reads those of an earlier run.

    Args:
        answers: The format of the answers.
    """

    def __init__(self, answers: AnswerFormat) -> None:
        self.answers = answers
        self.error = answers.prefix + ERROR
        self._reserved = frozenset(answers.added_columns)

    def admit(self, fields: Mapping[str, Any]) -> None:
        """Check the fields of a record before its request.

        Raises:
            RecordError: The row has no place for a field.
        """
        for name in fields:
            if name in self._reserved:
                raise RecordError(
                    f"the field {name!r} has the name of a column of the output",
                    field=name,
                    hint="Give a prefix for the names of the result's columns.",
                )

    def split(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rows of a file with their line breaks; the last one may be cut off."""
        yield from lines

    def read_header(self, rows: Iterator[bytes], first: Item | None) -> int | None:
        """Read the rows before those of records.

        Args:
            rows: The rows of the file.
            first: The first record of the input.

        Returns:
            Their size in bytes; ``None`` if they are not those of this format.
        """
        return 0

    def missing_header(self) -> str | None:
        """Return the header of a file without rows; ``None`` if none is missing."""
        return None

    def row(self, outcome: Outcome) -> str:
        """Return the row of a record, without a line break."""
        if outcome.result is None:
            assert outcome.error is not None, "a record has an answer or an error"
            return self.encode(outcome.item, outcome.error)
        text = self.answers.json_text(outcome.result)
        return self.encode(outcome.item, Written(text, self.answers.details.cells(outcome.result)))

    @abstractmethod
    def encode(self, item: Item, answer: Written | Exception) -> str:
        """Return the row of a record with an answer or an error, without a line break."""

    @abstractmethod
    def read(self, row: bytes, item: Item) -> Read | None:
        """Return the content of a row; ``None`` if it is not the row of this record."""

    @abstractmethod
    def is_beginning(self, row: bytes, item: Item) -> bool:
        """Return whether a row that is cut off can be that of this record."""

    def _fields(self, item: Item) -> dict[str, Any]:
        """Return the fields of a record as JSON values."""
        fields = item.fields().items()
        return {name: jsonable(value) for name, value in fields if name not in self._reserved}

    def _restored(
        self, columns: Mapping[str, Any], details: Mapping[str, Any] | None = None
    ) -> Read | None:
        try:
            return Answer(self.answers.restore(self.answers.join(columns)), details or {})
        except (ValueError, RecursionError):
            return None


class JsonLines(RowFormat):
    """JSON Lines.

    Args:
        answers: The format of the answers.
        is_bare: Whether a row without other fields is the answer itself, as the model wrote it.
    """

    def __init__(self, answers: AnswerFormat, *, is_bare: bool = True) -> None:
        super().__init__(answers)
        self._is_bare = is_bare and not answers.prefix and not answers.details.types

    def encode(self, item: Item, answer: Written | Exception) -> str:
        fields = {name: encode(value) for name, value in self._fields(item).items()}
        if isinstance(answer, Exception):
            return join_members({**fields, self.error: encode(failure(item.key, answer))})
        if not fields and self._is_bare:
            return answer.text
        about = {name: encode(value) for name, value in answer.details.items()}
        return join_members({**fields, **self.answers.split(answer.text), **about})

    def read(self, row: bytes, item: Item) -> Read | None:
        try:
            value = json.loads(row.decode("utf-8"))
        except (ValueError, RecursionError):
            return None
        fields = self._fields(item)
        failed = self._failure(value, item.key, fields)
        if failed is not None:
            return failed
        if not fields and self._is_bare:
            try:
                return Answer(self.answers.restore(value))
            except (ValueError, RecursionError):
                return None
        if not isinstance(value, dict):
            return None
        own = {name: value.pop(name) for name in fields if name in value}
        about = {name: value.pop(name) for name in self.answers.details.types if name in value}
        return self._restored(value, about) if own == fields else None

    def is_beginning(self, row: bytes, item: Item) -> bool:
        fields = {name: encode(value) for name, value in self._fields(item).items()}
        failed = encode({**item.key, "type": ""}).removesuffix('"}')
        heads = [join_members({**fields, self.error: failed}).removesuffix("}").encode()]
        if fields:
            heads.append(join_members(fields).removesuffix("}").encode())
        elif not self._is_bare or (self.answers.adapter and self.answers.properties):
            heads.append(f'{{"{self.answers.prefix}'.encode())
        elif self.answers.schema is not None:
            machine = JsonSchemaStateMachine(self.answers.schema)
            return machine.begins(row) or any(_is_one_beginning(row, head) for head in heads)
        return any(_is_one_beginning(row, head) for head in heads)

    def _failure(
        self, value: Any, key: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> Failure | None:
        if not isinstance(value, dict):
            return None
        match value.get(self.error):
            case {"type": str(kind), "message": str(message), **others}:
                more = {name: member for name, member in value.items() if name != self.error}
                if more == fields and {**others, "text": ""} == {**key, "text": ""}:
                    return Failure(kind, message)
        return None


def failure(key: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """Return an error as a JSON object.

    Args:
        key: Identifies the record.
        error: The error.
    """
    facts = {**key, "type": type(error).__name__, "message": str(error)}
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    return facts


def _is_one_beginning(row: bytes, head: bytes) -> bool:
    return row.startswith(head) or head.startswith(row)
