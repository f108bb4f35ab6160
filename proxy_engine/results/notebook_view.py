"""Results as HTML, for notebooks: values with confidences, and the output by part and token.

The HTML has no scripts and no style sheets. Colours are those of the notebook: text inherits its
colour, and shades are translucent, so that they fit light and dark themes. All content is escaped.
"""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from ..checks.pointers import reference_token
from .parts import Logprob

if TYPE_CHECKING:
    from .generation import GenerationResult


BOX = "line-height:1.45"
PRE = (
    "margin:0.2em 0;white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;background:none;"
    "color:inherit"
)
DIM = "opacity:0.65;font-size:85%"
CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0;white-space:pre-wrap"
TABLE = "border-collapse:collapse;color:inherit;background:none"

PARTS = {
    "text": "",
    "reasoning": "background:rgba(163,113,247,0.22)",
    "structured": "background:rgba(56,139,253,0.20)",
    "tool call": "background:rgba(46,160,67,0.22)",
    "marker": "opacity:0.55",
}
"""By kind of a part, its shade."""

ORIGINS = {
    "s": "",
    "f": "border-bottom:2px dotted rgba(128,128,128,0.9)",
    "d": "border-bottom:2px solid rgba(46,160,67,0.8)",
    "c": "border-bottom:2px solid rgba(163,113,247,0.8)",
}
"""By letter of ``GenerationResult.token_origins``, the underline."""

ORIGIN_NAMES = {
    "s": "sampled",
    "f": "forced by the grammar",
    "d": "drafted and accepted",
    "c": "drawn from scored options",
}


def shade(probability: float) -> str:
    """Return a background that is stronger the lower a probability is."""
    return f"background:rgba(230,126,0,{0.45 * (1 - probability):.2f})"


_TOOL_CALL = "tool_call"
_REASONING = "reasoning"
_MAX_PARTICLES = 12
_MAX_PARTICLE_CHARS = 160
MAX_SEGMENTS = 4000
"""Segments that are marked by token; the rest of the output is shown by part."""

MAX_OPEN_CHARS = 3000
"""Characters up to which an output is unfolded."""


def to_html(result: GenerationResult[Any]) -> str:
    """Return a result as HTML.

    A value with a confidence is followed by the number. Its shade is stronger the lower the
    confidence is.
    """
    answers = result.choices or (result,)
    blocks = []
    for number, answer in enumerate(answers, 1):
        if len(answers) > 1:
            blocks.append(f'<div style="{DIM}">answer {number} of {len(answers)}</div>')
        if _is_text(answer) and says_more(answer):
            blocks.append(text_html(answer))
        else:
            blocks += (*_answer(answer), *output_html(answer))
    blocks += _particles(result)
    blocks.append(f'<div style="{DIM}">{escape(_caption(result))}</div>')
    return f'<div style="{BOX}">{"".join(blocks)}</div>'


def _is_text(answer: GenerationResult[Any]) -> bool:
    """Whether the whole output is one free text."""
    return len(answer.parts) == 1 and answer.parts[0].pointer is None


def _answer(answer: GenerationResult[Any]) -> Iterator[str]:
    if answer.reasoning:
        yield (
            f'<details><summary style="{DIM}">reasoning, {len(answer.reasoning):,} characters'
            f'</summary><pre style="{PRE};{DIM}">{escape(answer.reasoning)}</pre></details>'
        )
    marks = answer.confidences()
    if answer.tool_calls:
        if answer.text:
            yield _pre(escape(answer.text))
        for index, call in enumerate(answer.tool_calls):
            pointer = f"/tool_calls/{index}"
            name = _marked(f"<b>{escape(call.name)}</b>", f"{pointer}/name", marks)
            text = json.dumps(call.arguments, ensure_ascii=False)
            yield _pre(f"{name} {_json(text, f'{pointer}/arguments', marks)}")
        return
    values = [part for part in answer.parts if part.pointer is not None]
    if not values:
        yield _pre(_marked(escape(answer.text), "", marks))
    for part in answer.parts:
        if part.pointer is not None:
            label = f'<div style="{DIM}">{escape(part.pointer)}</div>' if len(values) > 1 else ""
            yield label + _pre(_json(part.text, part.pointer, marks))
        elif values and not part.is_marker and part.name != _REASONING:
            yield _pre(escape(part.text))


def _pre(content: str) -> str:
    return f'<pre style="{PRE}">{content}</pre>'


def _marked(content: str, pointer: str, marks: Mapping[str, float]) -> str:
    """Return a value with its confidence as a shade and a number."""
    mark = marks.get(pointer)
    if mark is None:
        return content
    return f'<span style="{shade(mark)};border-radius:0.2em">{content}</span>{_number(mark)}'


def _number(mark: float) -> str:
    return f'<sub style="{DIM}" title="confidence {mark:.6g}">&hairsp;{mark:.2f}</sub>'


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _json(text: str, pointer: str, marks: Mapping[str, float]) -> str:
    """Return a JSON text with indentation and marks; other text with the mark of the whole."""
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number)
        return "".join(_value(value, pointer, "\n", marks))
    except (ValueError, RecursionError):
        return _marked(escape(text), pointer, marks)


def _value(value: Any, pointer: str, indent: str, marks: Mapping[str, float]) -> Iterator[str]:
    if not isinstance(value, dict | list) or not value:
        text = value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
        yield _marked(escape(text), pointer, marks)
        return
    is_object = isinstance(value, dict)
    mark = marks.get(pointer)
    yield ("{" if is_object else "[") + ("" if mark is None else _number(mark))
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for number, (name, member) in enumerate(members):
        yield ("," if number else "") + f"{indent}  "
        if is_object:
            yield f"{escape(json.dumps(name, ensure_ascii=False))}: "
        yield from _value(member, f"{pointer}/{reference_token(str(name))}", f"{indent}  ", marks)
    yield indent + ("}" if is_object else "]")


def _particles(result: GenerationResult[Any]) -> Iterator[str]:
    """Yield a table of the different particles, the most probable first."""
    if not result.particles:
        return
    shares: dict[str, list[float]] = defaultdict(list)
    for particle in result.particles:
        calls = (
            f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
            for call in particle.tool_calls
        )
        shares["\n".join(filter(None, (particle.text, *calls)))].append(particle.probability)
    ordered = sorted(shares.items(), key=lambda item: -sum(item[1]))
    rows = [
        _row("td", f"{sum(shared):.3f}", str(len(shared)), _shortened(text))
        for text, shared in ordered[:_MAX_PARTICLES]
    ]
    if len(ordered) > _MAX_PARTICLES:
        rows.append(_row("td", "", "", f"and {len(ordered) - _MAX_PARTICLES} more"))
    yield (
        f'<details><summary style="{DIM}">{len(result.particles)} particles, '
        f"{len(ordered)} different</summary>"
        f'<table style="{TABLE}">'
        f"{_row('th', 'probability', 'particles', 'answer')}{''.join(rows)}</table></details>"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_PARTICLE_CHARS else f"{text[: _MAX_PARTICLE_CHARS - 1]}…"


def _row(tag: str, *cells: str) -> str:
    inner = "".join(f'<{tag} style="{CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f'<tr style="background:none">{inner}</tr>'


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
            piece = text[position : position + left]
            position, left = position + len(piece), left - len(piece)
            # A character belongs to the token that completes it.
            yield Segment(kind, decoder.decode(piece), origin, probability)


def _probabilities(result: GenerationResult[Any]) -> Iterator[Logprob | None]:
    """Yield the probabilities of each token; forced tokens were not sampled, and have none."""
    known = iter(result.logprobs or ())
    for origin in result.token_origins:
        found = None if origin == "f" else next(known, None)
        yield None if found is None else found.chosen


def merged(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Join adjacent segments that are shown alike."""
    groups = groupby(segments, lambda segment: (segment.kind, segment.origin, segment.probability))
    for number, ((kind, origin, probability), group) in enumerate(groups):
        text = "".join(segment.text for segment in group)
        if text:
            known = number < MAX_SEGMENTS
            yield Segment(kind, text, *((origin, probability) if known else ()))


def segments_html(segments: Iterable[Segment]) -> str:
    """Return segments as preformatted HTML."""
    spans: list[str] = []
    for kind, group in groupby(segments, lambda segment: segment.kind):
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
        if kind != "text" and any(segment.kind == kind for segment in segments)
    ]
    chips += [
        _chip(ORIGINS[origin], name)
        for origin, name in ORIGIN_NAMES.items()
        if origin != "s" and any(segment.origin == origin for segment in segments)
    ]
    if any(segment.probability is not None for segment in segments):
        chips.append(_chip(shade(0.0), "low probability"))
    return f'<div style="{DIM}">{" ".join(chips)}</div>' if chips else ""


def _chip(style: str, name: str) -> str:
    return f'<span style="{style};margin-right:0.8em;padding:0 0.3em">{name}</span>'
