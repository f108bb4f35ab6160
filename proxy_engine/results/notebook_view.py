"""Results as HTML, for notebooks: values with confidences, and the output by part and token.

``notebook_view.html`` is the template. Colours are those of the notebook: text inherits its colour,
and shades are translucent, so that they fit light and dark themes. All content is escaped.
"""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment

from ..checks import reference_token
from .parts import Logprob

if TYPE_CHECKING:
    from .generation import GenerationResult

ORIGIN_NAMES = {
    "s": "sampled",
    "f": "forced by the grammar",
    "d": "drafted and accepted",
    "c": "drawn from scored options",
}
"""Names by letter of ``GenerationResult.token_origins``."""

_TOOL_CALL = "tool_call"
_REASONING = "reasoning"
MAX_SEGMENTS = 4000
"""Segments that are marked by token; the rest of the output is shown by part."""

MAX_OPEN_CHARS = 3000
"""Characters up to which an output is unfolded."""


@cache
def _template() -> Any:
    source = Path(__file__).with_name("notebook_view.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True)
    environment.globals["names"] = ORIGIN_NAMES
    return environment.from_string(source).module


def to_html(result: GenerationResult[Any]) -> str:
    """Return a result as HTML.

    A value with a confidence is followed by the number. Its shade is stronger the lower the
    confidence is.
    """
    answers = [_shown(answer) for answer in result.choices or (result,)]
    return str(_template().view(answers, _caption(result)))


def running_html(segments: Iterable[ShownSegment], status: str) -> str:
    """Return the answer so far of a stream, and its status, as HTML."""
    return str(_template().running([*merged(segments)], status))


def _shown(answer: GenerationResult[Any]) -> dict[str, Any]:
    """Return the values of an answer, and its output by part and token if that says more."""
    is_text = len(answer.parts) == 1 and answer.parts[0].pointer is None and says_more(answer)
    return {
        "reasoning": "" if is_text else answer.reasoning,
        "blocks": [] if is_text else [*_blocks(answer)],
        "is_text": is_text,
        "segments": [*merged(segments_of(answer))] if says_more(answer) else [],
        "counts": _counts(answer),
        "is_unfolded": sum(len(part.text) for part in answer.parts) <= MAX_OPEN_CHARS,
    }


class _ShownText(NamedTuple):
    """A text of a value.

    Attributes:
        text: The text.
        mark: The confidence of the value that it is, or begins.
        is_value: Whether it is the whole value.
        is_name: Whether it is the name of a tool.
    """

    text: str
    mark: float | None = None
    is_value: bool = True
    is_name: bool = False


class _Block(NamedTuple):
    """Texts that follow each other, below a label."""

    pieces: Iterable[_ShownText]
    label: str = ""


def _blocks(answer: GenerationResult[Any]) -> Iterator[_Block]:
    marks = answer.confidences()
    if answer.tool_calls:
        if answer.text:
            yield _Block([_ShownText(answer.text)])
        for index, call in enumerate(answer.tool_calls):
            pointer = f"/tool_calls/{index}"
            name = _ShownText(call.name, marks.get(f"{pointer}/name"), is_name=True)
            text = json.dumps(call.arguments, ensure_ascii=False)
            arguments = _json(text, f"{pointer}/arguments", marks)
            yield _Block([name, _ShownText(" "), *arguments])
        return
    values = [part for part in answer.parts if part.pointer is not None]
    if not values:
        yield _Block([_ShownText(answer.text, marks.get(""))])
    for part in answer.parts:
        if part.pointer is not None:
            label = part.pointer if len(values) > 1 else ""
            yield _Block(_json(part.text, part.pointer, marks), label)
        elif values and not part.is_marker and part.name != _REASONING:
            yield _Block([_ShownText(part.text)])


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _json(text: str, pointer: str, marks: Mapping[str, float]) -> list[_ShownText]:
    """Return a JSON text with indentation and marks; other text with the mark of the whole."""
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number)
        return [*_value(value, pointer, "\n", marks)]
    except (ValueError, RecursionError):
        return [_ShownText(text, marks.get(pointer))]


def _value(
    value: Any, pointer: str, indent: str, marks: Mapping[str, float]
) -> Iterator[_ShownText]:
    if not isinstance(value, dict | list) or not value:
        text = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
        yield _ShownText(text, marks.get(pointer))
        return
    is_object = isinstance(value, dict)
    yield _ShownText("{" if is_object else "[", marks.get(pointer), is_value=False)
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for number, (name, member) in enumerate(members):
        label = f"{json.dumps(name, ensure_ascii=False)}: " if is_object else ""
        yield _ShownText(f"{',' if number else ''}{indent}  {label}")
        yield from _value(member, f"{pointer}/{reference_token(str(name))}", f"{indent}  ", marks)
    yield _ShownText(indent + ("}" if is_object else "]"))


def _caption(result: GenerationResult[Any]) -> str:
    usage = result.usage
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    drafted = f" ({usage.accepted_tokens:,} drafted)" if usage.accepted_tokens else ""
    return " · ".join(
        (
            result.model,
            f"{usage.prompt_tokens:,}{cached} + {usage.completion_tokens:,}{drafted} tokens",
            f"{usage.prompt_seconds:.2f} + {usage.completion_seconds:.2f} s",
            result.finish_reason,
        )
    )


class ShownSegment(NamedTuple):
    """Text of one part and one token, or of several tokens that are shown alike.

    Attributes:
        kind: The kind of the part, see :func:`kind_of`.
        text: The text.
        origin: A letter of ``token_origins``; ``"s"`` if unknown.
        probability: The chosen token's probabilities.
    """

    kind: str
    text: str
    origin: str = "s"
    probability: Logprob | None = None

    @property
    def after(self) -> float:
        """The probability of the chosen token after the mask; 0 if it is not known."""
        return 0.0 if self.probability is None else math.exp(self.probability.after_mask)

    @property
    def before(self) -> float:
        """The probability of the chosen token before the mask; 0 if it is not known."""
        return 0.0 if self.probability is None else math.exp(self.probability.before_mask)


def says_more(result: GenerationResult[Any]) -> bool:
    """Whether the output has several parts, or tokens that differ in more than their text."""
    origins = set(result.token_origins)
    return bool(origins) and (
        len(result.parts) > 1 or bool(result.logprobs) or origins - {"s"} != set()
    )


def _counts(result: GenerationResult[Any]) -> str:
    origins = Counter(result.token_origins)
    counts = [
        f"{origins[letter]:,} {name}" for letter, name in ORIGIN_NAMES.items() if origins[letter]
    ]
    return f"{sum(origins.values()):,} tokens: {', '.join(counts)}"


def kind_of(name: str, *, is_marker: bool = False, is_value: bool = False) -> str:
    """Return the kind of a part, which has a style in the template."""
    if name == _TOOL_CALL:
        return "tool call"
    if is_marker:
        return "marker"
    if name == _REASONING:
        return "reasoning"
    return "structured" if is_value else "text"


def segments_of(result: GenerationResult[Any]) -> Iterator[ShownSegment]:
    """Yield the output token by token; by part if the tokens' lengths do not add up to the text.

    Lengths differ where the output has bytes that are no UTF-8, which its text replaces.
    """
    parts = [
        (
            kind_of(part.name, is_marker=part.is_marker, is_value=part.pointer is not None),
            part.text.encode("utf-8", "surrogatepass"),
        )
        for part in result.parts
    ]
    lengths = result.token_lengths
    if sum(lengths) != sum(len(text) for _, text in parts):
        yield from (ShownSegment(kind, text.decode("utf-8", "replace")) for kind, text in parts)
        return
    tokens = zip(lengths, result.token_origins, _probabilities(result), strict=True)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left, origin, probability = 0, "s", None
    for kind, text in parts:
        position = 0
        while position < len(text):
            while not left:
                left, origin, probability = next(tokens)
            piece = text[position : position + left]
            position, left = position + len(piece), left - len(piece)
            # A character belongs to the token that completes it.
            yield ShownSegment(kind, decoder.decode(piece), origin, probability)


def _probabilities(result: GenerationResult[Any]) -> Iterator[Logprob | None]:
    """Yield the probabilities of each token; forced tokens were not sampled, and have none."""
    known = iter(result.logprobs or ())
    for origin in result.token_origins:
        found = None if origin == "f" else next(known, None)
        yield None if found is None else found.chosen


def merged(segments: Iterable[ShownSegment]) -> Iterator[ShownSegment]:
    """Join adjacent segments that are shown alike."""
    groups = groupby(segments, lambda segment: (segment.kind, segment.origin, segment.probability))
    for number, ((kind, origin, probability), group) in enumerate(groups):
        text = "".join(segment.text for segment in group)
        if text:
            known = number < MAX_SEGMENTS
            yield ShownSegment(kind, text, *((origin, probability) if known else ()))
