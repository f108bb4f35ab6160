"""Why one token or text may come next, or why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import index

from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.errors import InvalidArgumentError
from state_machines.explanation.continuations import END, Continuation, continuations
from state_machines.grammar.deep import compute_word_derivative
from state_machines.grammar.node import EMPTY, Node
from state_machines.limits import LIMITS
from state_machines.notebook_view import Printer, token_explanation_html
from state_machines.vocabulary import Vocabulary

_BLOCK = 64
"""Bytes of a text that are followed at once."""

_SHOWN = 60
"""Characters of a text that are shown."""

_RECURSION_BUDGET = recursion_budget()


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
        expected: What may follow ``fitting_text``.
        hint: What would fit instead; empty if nothing near it does.
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
        shown = self.text if len(self.text) <= _SHOWN else f"{self.text[: _SHOWN - 1]}…"
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
        """Return the explanation as HTML, which notebooks show."""
        return token_explanation_html(self)


def explain_token(
    state: Node, vocabulary: Vocabulary, token: int | str, *, is_finished: bool = False
) -> TokenExplanation:
    """Explain why a token may come next, or why not; see :meth:`Matcher.explain`.

    Args:
        state: The state.
        vocabulary: The tokens.
        token: A token id, or a text, which may be several tokens long.
        is_finished: Whether an end token has been taken.

    Raises:
        InvalidArgumentError: ``token`` is neither an integer nor a string.
        GrammarBudgetError: Following the bytes takes more than ``LIMITS.mask_steps`` steps.
    """
    with step_budget(LIMITS.mask_steps), _RECURSION_BUDGET:
        if isinstance(token, str):
            return _explain_text(state, vocabulary, token, is_finished)
        return _explain_id(state, vocabulary, _checked_id(token), is_finished)


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


def _explain_id(
    state: Node, vocabulary: Vocabulary, token_id: int, is_finished: bool
) -> TokenExplanation:
    in_range = 0 <= token_id < vocabulary.size
    form = vocabulary.token_bytes[token_id] if in_range else None
    if form is None:
        why = (
            "the vocabulary gives this id no text"
            if in_range
            else f"the vocabulary has {vocabulary.size:,} token ids, 0 to {vocabulary.size - 1}"
        )
        return _without_text(state, vocabulary, token_id, "", f"is refused: {why}", is_finished)
    if token_id in vocabulary.end_token_ids:
        return _explain_end(state, vocabulary, token_id, _shown(form), is_finished)
    return _followed(state, vocabulary, token_id, form, is_finished)


def _explain_end(
    state: Node, vocabulary: Vocabulary, token_id: int, text: str, is_finished: bool
) -> TokenExplanation:
    if state.nullable and not is_finished:
        found = _without_text(
            state, vocabulary, token_id, text, "ends the text, which is complete", is_finished
        )
        return replace(found, is_allowed=True, expected=())
    why = "is refused: it ends the text, which is not complete"
    return _without_text(state, vocabulary, token_id, text, why, is_finished)


def _without_text(
    state: Node,
    vocabulary: Vocabulary,
    token_id: int,
    text: str,
    reason: str,
    is_finished: bool,
) -> TokenExplanation:
    """Return the refusal of a token that writes nothing."""
    expected = () if is_finished else continuations(state, vocabulary.special_tokens)
    if is_finished:
        reason = "is refused: an end token has been taken"
    name = f"token {token_id}" + (f" ({text!r})" if text else "")
    return TokenExplanation(token_id, text, False, 0, 0, "", f"{name} {reason}.", expected)


def _explain_text(
    state: Node, vocabulary: Vocabulary, text: str, is_finished: bool
) -> TokenExplanation:
    form = text.encode("utf-8", "surrogatepass")
    found = _followed(state, vocabulary, None, form, is_finished)
    found = replace(found, text=text.encode("utf-8", "replace").decode())
    special = vocabulary.special_tokens.get(text)
    if not found.is_allowed and special is not None:
        hint = f"As a special token this is token {special}: explain({special})"
        found = replace(found, hint=hint)
    return found


def _followed(
    state: Node, vocabulary: Vocabulary, token_id: int | None, form: bytes, is_finished: bool
) -> TokenExplanation:
    text = _shown(form)
    fitting, whole, place = (0, 0, EMPTY) if is_finished else _fitting(state, form)
    is_allowed = not is_finished and fitting == len(form)
    found = TokenExplanation(
        token_id,
        text,
        is_allowed,
        fitting,
        len(form),
        _shown(form[:whole]),
        "",
        () if is_finished else continuations(place, vocabulary.special_tokens),
        "" if is_allowed or is_finished else _hint(state, text, fitting),
    )
    return replace(found, reason=f"{found.name} {_reason(found, form, whole, is_finished)}.")


def _reason(found: TokenExplanation, form: bytes, whole: int, is_finished: bool) -> str:
    if is_finished:
        return "is refused: an end token has been taken"
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
        try:
            return repr(form[position : position + length].decode())
        except UnicodeDecodeError:
            continue
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
