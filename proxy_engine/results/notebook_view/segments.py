"""The output of an answer in coloured segments, by part and by token."""

from __future__ import annotations

import codecs
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from .styles import DIM, ORIGIN_NAMES, ORIGINS, PARTS, PRE, shade

if TYPE_CHECKING:
    from ..generation import GenerationResult, Logprob

MAX_SEGMENTS = 4000
"""Segments that are marked by token; the rest of the output is shown by part."""

MAX_OPEN_CHARS = 3000
"""Characters up to which an output is unfolded."""

_TOOL_CALL = "tool_call"
_REASONING = "reasoning"


class Segment(NamedTuple):
    """Text of one part and one token, or of several tokens that are shown alike.

    Attributes:
        kind: The kind of the part, a key of ``PARTS``.
        text: The text.
        origin: A letter of ``token_origins``; ``"s"`` if unknown.
        probability: The chosen token's probabilities.
    """

    kind: str
    text: str
    origin: str = "s"
    probability: Logprob | None = None


def output_html(result: GenerationResult[Any]) -> Iterator[str]:
    """Yield the output of a result by part and token, if that says more than its values do."""
    if not says_more(result):
        return
    segments = list(merged(segments_of(result)))
    size = sum(len(part.text) for part in result.parts)
    unfolded = " open" if size <= MAX_OPEN_CHARS else ""
    yield (
        f'<details{unfolded}><summary style="{DIM}">output, {_counts(result)}</summary>'
        f"{segments_html(segments)}{_legend(segments)}</details>"
    )


def text_html(result: GenerationResult[Any]) -> str:
    """Return an output that is one text, with its tokens marked if they differ."""
    segments = list(merged(segments_of(result)))
    legend = _legend(segments)
    counts = f'<div style="{DIM}">{_counts(result)}</div>' if legend else ""
    return f"{segments_html(segments)}{legend}{counts}"


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
    """Return the kind of a part, a key of ``PARTS``."""
    if name == _TOOL_CALL:
        return "tool call"
    if is_marker:
        return "marker"
    if name == _REASONING:
        return "reasoning"
    return "structured" if is_value else "text"


def segments_of(result: GenerationResult[Any]) -> Iterator[Segment]:
    """Yield the output token by token; by part if the tokens' lengths are not those of the text.

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
        yield from (Segment(kind, text.decode("utf-8", "replace")) for kind, text in parts)
        return
    tokens = zip(lengths, result.token_origins, _probabilities(result), strict=True)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left, origin, probability = 0, "s", None
    for kind, text in parts:
        position = 0
        while position < len(text):
            while not left:
                left, origin, probability = next(tokens)
            own = text[position : position + left]
            position, left = position + len(own), left - len(own)
            # A character belongs to the token that completes it.
            yield Segment(kind, decoder.decode(own), origin, probability)


def _probabilities(result: GenerationResult[Any]) -> Iterator[Logprob | None]:
    """Yield the probabilities of each token; forced tokens were not sampled, and have none."""
    known = iter(result.logprobs or ())
    for origin in result.token_origins:
        found = None if origin == "f" else next(known, None)
        yield None if found is None else found.chosen


def merged(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Join adjacent segments that are shown alike."""
    groups = groupby(segments, lambda one: (one.kind, one.origin, one.probability))
    for number, ((kind, origin, probability), group) in enumerate(groups):
        text = "".join(one.text for one in group)
        if text:
            known = number < MAX_SEGMENTS
            yield Segment(kind, text, *((origin, probability) if known else ()))


def segments_html(segments: Iterable[Segment]) -> str:
    """Return segments as preformatted HTML."""
    spans: list[str] = []
    for kind, group in groupby(segments, lambda one: one.kind):
        inner = "".join(map(_token_html, group))
        style = PARTS[kind]
        spans.append(f'<span style="{style}">{inner}</span>' if style else inner)
    return f'<pre style="{PRE}">{"".join(spans)}</pre>'


def _token_html(segment: Segment) -> str:
    styles, title = [ORIGINS[segment.origin]], ORIGIN_NAMES[segment.origin]
    if segment.probability is not None:
        after, before = (
            math.exp(segment.probability.after_mask),
            math.exp(segment.probability.before_mask),
        )
        styles.append(shade(min(after, 1.0)))
        title += f", probability {after:.3g}, without the grammar {before:.3g}"
    style = ";".join(filter(None, styles))
    text = escape(segment.text)
    return f'<span style="{style}" title="{title}">{text}</span>' if style else text


def _legend(segments: Sequence[Segment]) -> str:
    chips = [
        _chip(PARTS[kind], kind)
        for kind in PARTS
        if kind != "text" and any(one.kind == kind for one in segments)
    ]
    chips += [
        _chip(ORIGINS[origin], name)
        for origin, name in ORIGIN_NAMES.items()
        if origin != "s" and any(one.origin == origin for one in segments)
    ]
    if any(one.probability is not None for one in segments):
        chips.append(_chip(shade(0.0), "low probability"))
    return f'<div style="{DIM}">{" ".join(chips)}</div>' if chips else ""


def _chip(style: str, name: str) -> str:
    return f'<span style="{style};margin-right:0.8em;padding:0 0.3em">{name}</span>'
