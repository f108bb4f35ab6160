"""Runs of an extraction: earlier rows, the batch, the output file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from .inputs import Inputs
from .outcomes import Engine, Extraction, Outcome
from .outputs import Output, OutputOptions
from .rows import JsonLines, RowFormat


@dataclass(frozen=True, slots=True)
class Run:
    """An extraction from inputs that has not begun.

    Attributes:
        extraction: The format of the answers, the instruction and the options.
        inputs: The records.
        fields: The fields of the records, if they are known.
        output: The output file.
        opened_engine: Returns the engine; called if there are records left.
    """

    extraction: Extraction
    inputs: Inputs
    fields: tuple[str, ...]
    output: OutputOptions | None
    opened_engine: Callable[[], AbstractContextManager[Engine]]

    def outcomes(self) -> Generator[Outcome]:
        """Yield the outcomes in the order of the records. Closing stops the requests.

        A row is in the output file before its record is yielded.

        Raises:
            OutputFileError: The output file cannot be written or continued.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        answers = self.extraction.answers
        with contextlib.ExitStack() as stack:
            output: Output | None = None
            rows: RowFormat = JsonLines(answers)
            if self.output is not None:
                opened = self.output.opened(answers, self.inputs, self.fields)
                output = stack.enter_context(opened)
                rows = output.rows
                if self.output.is_resumed:
                    yield from output.earlier()
            if self.inputs.peek() is not None:
                if output is not None:
                    output.check_continuable()
                engine = stack.enter_context(self.opened_engine())
                if output is not None:
                    output.begin()
                outcomes = self.extraction.outcomes(engine, self.inputs, rows.admit)
                for outcome in stack.enter_context(contextlib.closing(outcomes)):
                    yield outcome if output is None else output.write(outcome)
            elif output is not None:
                output.begin()
            if output is not None:
                output.finish()
