"""Results as HTML: values with their confidences, and the output by part and token."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ...checks.pointers import reference_token
from ..confidence import confidences
from .segments import output_html, says_more, text_html
from .styles import BOX, CELL, DIM, PRE, TABLE, shade

if TYPE_CHECKING:
    from ..generation import GenerationResult

_REASONING = "reasoning"
_MAX_PARTICLES = 12
_MAX_PARTICLE_CHARS = 160


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
    marks = confidences(answer)
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
