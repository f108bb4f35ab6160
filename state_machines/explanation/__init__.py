"""Explanations of masks: why a token may come next or not, and what may follow.

One token or text is explained here, ``masks`` explains the allowed tokens of a state, and
``continuations`` describes the beginnings of a state in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from operator import index

import numpy as np
import numpy.typing as npt

from state_machines.budgets import derivative_budget, spend
from state_machines.errors import InvalidArgumentError
from state_machines.explanation.continuations import END, Continuation, continuations, list_html
from state_machines.explanation.masks import MaskExplanation, TokenGroup, explain_mask
from state_machines.grammar.deep import compute_word_derivative
from state_machines.grammar.node import EMPTY, Node
from state_machines.limits import LIMITS
from state_machines.notebook_view import DIM, FAILS, FITS, Printer, box, code, visible
from state_machines.vocabulary import Vocabulary

__all__ = [
    "Continuation",
    "MaskExplanation",
    "TokenExplanation",
    "TokenGroup",
    "continuations",
    "explain_mask",
    "explain_token",
    "refused",
]


_BLOCK = 64
"""Bytes of a text that are followed at once."""

_SHOWN = 60
"""Characters of a text that are shown."""

_FINISHED = "is refused: an end token has been taken"


@dataclass(frozen=True, slots=True)
class TokenExplanation:
    """Why a token or a text may come next, or why not.

    Attributes:
        token_id: The token; ``None`` for a text.
        text: Its text for display: special tokens by name, incomplete characters as ``�``.
        is_allowed: Whether it may come next. For a token, the value of the mask.
        fitting_bytes: How many of its bytes some continuation begins with.
        total_bytes: How many bytes it has; 0 for end tokens and ids without text.
        fitting_text: The whole characters that fit.
        reason: One sentence.
        expected: Description of the texts that can follow ``fitting_text``.
        hint: A near text that would fit; empty without one.
    """

    token_id: int | None
    text: str
    is_allowed: bool
    fitting_bytes: int
    total_bytes: int
    fitting_text: str
    reason: str
    expected: tuple[Continuation, ...]
    hint: str = ""

    @property
    def name(self) -> str:
        """The token with its id, or the text, for display."""
        shown = _beginning(self.text)
        return repr(shown) if self.token_id is None else f"token {self.token_id} ({shown!r})"

    def __str__(self) -> str:
        lines = [self.reason]
        if self.expected:
            place = f"After {_end(self.fitting_text)!r}" if self.fitting_text else "Here"
            listed = ", or ".join(map(str, self.expected))
            lines.append(f"{place} may follow: {listed}.")
        if self.hint:
            lines.append(f"Hint: {self.hint}.")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Printer, _: bool) -> None:
        """Print the explanation as text, which IPython shows."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the explanation as HTML, which notebooks show.

        The text is green where it fits and red where it does not.
        """
        fits, fails = self.fitting_text, self.text.removeprefix(self.fitting_text)
        if not (self.is_allowed or fails):
            # The grammar allows the token, and a guard refuses it.
            fits, fails = "", fits
        fits, fails = _end(fits), _beginning(fails)
        parts = [f'<span style="{FITS}">{visible(fits)}</span>'] if fits else []
        if fails:
            style = FITS if self.is_allowed else FAILS
            parts.append(f'<span style="{style}">{visible(fails)}</span>')
        rows = [f"<div>{''.join(parts)} {escape(self.reason)}</div>"]
        if self.expected:
            place = f"after {code(fits)}" if fits else "here"
            rows.append(f'<div><span style="{DIM}">{place} may follow</span></div>')
            rows.append(list_html(self.expected))
        if self.hint:
            rows.append(f'<div style="{DIM}">{escape(self.hint)}</div>')
        return box(rows)


def explain_token(
    state: Node,
    vocabulary: Vocabulary,
    token: int | str,
    mask: Callable[[], npt.NDArray[np.bool_]],
    *,
    is_finished: bool = False,
) -> TokenExplanation:
    """Explain why a token may come next, or why not; see :meth:`Matcher.explain`.

    Args:
        state: The state.
        vocabulary: The tokens.
        token: A token id, or a text, which may be several tokens long.
        mask: Returns the allowed tokens: bool, shape (vocabulary.size,). Not called for a text.
        is_finished: Whether an end token has been taken.

    Raises:
        InvalidArgumentError: ``token`` is neither an integer nor a string.
        GrammarBudgetError: Following the bytes takes more than ``LIMITS.mask_steps`` steps.
    """
    token_id = None if isinstance(token, str) else _checked_id(token)
    in_range = token_id is not None and 0 <= token_id < vocabulary.size
    is_in_mask = in_range and bool(mask()[token_id])
    with derivative_budget(LIMITS.mask_steps):
        if isinstance(token, str):
            form: bytes | None = token.encode("utf-8", "surrogatepass")
        else:
            form = vocabulary.token_bytes[token] if in_range else None
        is_end = token_id in vocabulary.end_token_ids and (state.nullable or not is_in_mask)
        if form is None or is_end:
            return _silent(state, vocabulary, token_id or 0, is_finished=is_finished)
        found = _followed(state, vocabulary, token_id, form, is_finished=is_finished)
    if isinstance(token, str):
        special = vocabulary.special_tokens.get(token)
        hint = found.hint
        if not found.is_allowed and special is not None:
            hint = f"As a special token this is token {special}: explain({special})"
        return replace(found, text=token.encode("utf-8", "replace").decode(), hint=hint)
    if is_in_mask and not found.is_allowed:
        reason = f"{found.name} may come next: the grammar has the token itself."
        return replace(found, is_allowed=True, reason=reason, hint="")
    if found.is_allowed and not is_in_mask:
        why = "a part with max_tokens could not be completed in the tokens that are left to it"
        return refused(found, why, "Raise max_tokens of the rule")
    return found


def refused(explanation: TokenExplanation, why: str, hint: str = "") -> TokenExplanation:
    """Return the explanation of a token that the grammar allows and something else refuses."""
    reason = f"{explanation.name} is refused: {why}."
    return replace(explanation, is_allowed=False, reason=reason, hint=hint)


def _checked_id(token: object) -> int:
    try:
        if isinstance(token, bool):
            raise TypeError
        return index(token)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgumentError(
            f"token must be a token id or a text, not {type(token).__name__}", argument="token"
        ) from None


def _silent(
    state: Node, vocabulary: Vocabulary, token_id: int, *, is_finished: bool
) -> TokenExplanation:
    """Return the explanation of a token that writes nothing: an end token, or one without text."""
    is_known = 0 <= token_id < vocabulary.size
    form = vocabulary.token_bytes[token_id] if is_known else None
    is_allowed = form is not None and state.nullable and not is_finished
    if is_allowed:
        reason = "ends the text, which is complete"
    elif is_finished:
        reason = _FINISHED
    elif form is not None:
        reason = "is refused: it ends the text, which is not complete"
    elif is_known:
        reason = "is refused: the vocabulary gives this id no text"
    else:
        count = vocabulary.size
        reason = f"is refused: the vocabulary has {count:,} token ids, 0 to {count - 1}"
    text = _shown(form or b"")
    name = f"token {token_id}" + (f" ({text!r})" if text else "")
    is_described = not (is_allowed or is_finished)
    expected = continuations(state, vocabulary.special_tokens) if is_described else ()
    return TokenExplanation(token_id, text, is_allowed, 0, 0, "", f"{name} {reason}.", expected)


def _followed(
    state: Node, vocabulary: Vocabulary, token_id: int | None, form: bytes, *, is_finished: bool
) -> TokenExplanation:
    """Return the explanation of the bytes of a token or a text."""
    text = _shown(form)
    if is_finished:
        silent = TokenExplanation(token_id, text, False, 0, len(form), "", "", ())
        return replace(silent, reason=f"{silent.name} {_FINISHED}.")
    fitting, whole, place = _fitting(state, form)
    is_allowed = fitting == len(form)
    found = TokenExplanation(
        token_id,
        text,
        is_allowed,
        fitting,
        len(form),
        _shown(form[:whole]),
        "",
        continuations(place, vocabulary.special_tokens),
        "" if is_allowed else _hint(state, text, fitting),
    )
    return replace(found, reason=f"{found.name} {_reason(found, form, whole)}.")


def _reason(found: TokenExplanation, form: bytes, whole: int) -> str:
    if found.is_allowed:
        return "may come next"
    if found.expected == (END,) and not found.fitting_bytes:
        return "is refused: the text is complete, and nothing may follow it"
    if len(form) == 1 or form.startswith(Vocabulary.SPECIAL_MARK):
        return "is refused: it cannot come here"
    character = _character(form, whole)
    if not found.fitting_bytes:
        return f"is refused: no continuation begins with {character}"
    count = found.fitting_bytes
    return f"is refused: {count} of its {len(form)} bytes fit, and {character} does not"


def _character(form: bytes, position: int) -> str:
    """Return the character at a position for display; the byte there if it is none."""
    for length in range(1, 5):
        with suppress(UnicodeDecodeError):
            return repr(form[position : position + length].decode())
    return f"the byte 0x{form[position]:02X}"


def _fitting(state: Node, form: bytes) -> tuple[int, int, Node]:
    """Follow bytes as far as they fit.

    Returns:
        How many bytes fit, how many of them are whole characters, and the state after these.
    """
    fitting, whole, place = 0, 0, state
    block = _BLOCK
    while fitting < len(form):
        spend()
        part = form[fitting : fitting + block]
        target = compute_word_derivative(state, part)
        if target is EMPTY:
            if block == 1:
                break
            block = 1
            continue
        fitting, state = fitting + len(part), target
        if fitting == len(form) or not 0x80 <= form[fitting] < 0xC0:
            whole, place = fitting, state
    return fitting, whole, place


def _hint(state: Node, text: str, fitting: int) -> str:
    """Return a text near a refused one that fits, in a sentence."""
    for near, what in _near(text):
        target = compute_word_derivative(state, near.encode("utf-8", "surrogatepass"))
        if target is not EMPTY and len(near) > fitting:
            return f"{near!r} fits, {what}"
    return ""


def _near(text: str) -> Iterator[tuple[str, str]]:
    stripped = text.lstrip()
    if stripped and stripped != text:
        yield stripped, "without the whitespace before it"
    if text.lower() != text:
        yield text.lower(), "in lower case"
    if stripped:
        yield f'"{stripped}', "with a quote before it"


def _shown(form: bytes) -> str:
    return form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace")


def _end(text: str) -> str:
    return text if len(text) <= _SHOWN else f"…{text[1 - _SHOWN :]}"


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
