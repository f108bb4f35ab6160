"""A matcher: one text being written, token by token."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Self, overload
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import derivative_budget, step_budget
from state_machines.completion.completion import Completion, LimitedCompletion
from state_machines.errors import GrammarBudgetError, TokenRejectedError, UnknownTokenError
from state_machines.grammar.deep import forced_step, word_derivative
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.rule_options import temperature_of
from state_machines.grammar.tokens import begins_with_spelling
from state_machines.limits import LIMITS
from state_machines.masks.mask_store import MaskCost, MaskStore
from state_machines.notebook_view import error_html
from state_machines.syntax_tree import NamedTokens
from state_machines.vocabulary import Vocabulary

if TYPE_CHECKING:
    from state_machines.explanation import MaskExplanation, TokenExplanation
    from state_machines.machine import StateMachine


_EXPLANATION_STEPS = 64
"""Derivatives that an explanation is assumed to store."""


class Matcher:
    """The state of one text in a machine's language, and the mask of the next token.

    Cheap to create and to copy; all matchers of a vocabulary share its masks. Not thread-safe;
    different matchers may run in different threads.

    Args:
        state: The first state.
        vocabulary: The tokens.
        machine: The owner of the states, which the matcher keeps alive.

    Attributes:
        state: The language of the texts that may still follow. Read-only.
        is_finished: Whether an end token has been taken. Read-only.
        vocabulary: The tokens.

    Raises:
        UnknownTokenError: The machine's language has a token that the vocabulary does not have.
        UnsatisfiableGrammarError: The ``max_tokens`` of a rule is too small for all its texts.
        GrammarBudgetError: That is not known within ``LIMITS.token_search_steps`` steps.
    """

    def __init__(
        self, state: Node, vocabulary: Vocabulary, machine: StateMachine | None = None
    ) -> None:
        self.vocabulary = vocabulary
        # A machine that is freed releases its states, so the matcher keeps it alive.
        self._machine = machine
        self.state = state
        self._store = MaskStore.of(vocabulary)
        self._limited: LimitedCompletion | None = None
        """Given if rules of the language limit their tokens."""
        if machine is not None:
            if machine.token_sets:
                check_token_sets(machine.token_sets, vocabulary)
            if machine.limited_rules:
                self._limited = LimitedCompletion.of(vocabulary)
                self._limited.check(machine.limited_rules)
        self.is_finished = False

    @property
    def is_accepting(self) -> bool:
        """Whether the text written so far is complete."""
        return self.state.nullable

    @property
    def is_in_values(self) -> bool:
        """Whether the next token belongs to values of a JSON Schema."""
        return self._machine is not None and self._machine.has_values

    @property
    def completion(self) -> Completion:
        """The plans that complete the language's texts."""
        return self._limited or Completion.of(self.vocabulary)

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The values that :attr:`temperature` may have, ascending; ``None`` is not among them."""
        return () if self._machine is None else self._machine.temperatures

    @property
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar sets for the next token, if any.

        It is that of the rule whose lexeme is being written, or may begin. ``None`` outside of such
        rules, and where rules with other temperatures or without one may come next as well.

        >>> from state_machines import GrammarStateMachine, Vocabulary
        >>> machine = GrammarStateMachine.from_lark(
        ...     'start: "a" name\\nname[temperature=0.7]: /[b-z]+/'
        ... )
        >>> matcher = machine.matcher(Vocabulary([b"a", b"b", b"c"], end_token_ids=[2]))
        >>> matcher.temperature
        >>> matcher.advance(0)
        >>> matcher.temperature
        0.7
        """
        if not self.temperatures or self.is_finished:
            return None
        return temperature_of(self.state)

    def allowed_tokens(self, *, steps: int | None = None) -> npt.NDArray[np.bool_]:
        """Return the mask of the next token.

        Args:
            steps: Work budget of a mask that is not cached; by default ``LIMITS.mask_steps``.

        Returns:
            Bool, shape (vocabulary.size,), read-only. End tokens are allowed exactly where the
            state accepts. Empty once finished, and if no token begins the required text.

        Raises:
            GrammarBudgetError: Computing the mask takes more than ``steps`` steps.
        """
        if self._limited is not None and not self.is_finished:
            return self._limited.allowed(self.state, steps)
        return self._store.allowed(EMPTY if self.is_finished else self.state, steps)

    def mask_cost(self) -> MaskCost | None:
        """Return the cost of computing this state's mask.

        ``None`` if the mask has not been computed. The costs of the last 256 masks of a vocabulary
        are kept. Masks within quotes are not stored; the cost of one is measured here.
        """
        return self._store.cost(self.state)

    def advance(self, token_id: int) -> None:
        """Take a token. If this raises, the state is unchanged.

        Raises:
            TokenRejectedError: The token is not allowed.
            GrammarBudgetError: Taking it needs more than ``LIMITS.mask_steps`` steps, because the
                grammar is too ambiguous.
        """
        self.move(token_id, self.state_after(token_id))

    def move(self, token_id: int, state: Node | None) -> None:
        """Take a token, given the state after it: the result of :meth:`state_after`."""
        del token_id
        if state is None:
            self.is_finished = True
        else:
            self.state = state

    def restrict(self, state: Node) -> None:
        """Restrict the language of the texts that may follow to a subset.

        Args:
            state: A state whose language is a subset of that of :attr:`state`, such as that of a
                :class:`~state_machines.grammar.finite_choices.ChoiceOption`. Not dead.
        """
        self.state = state

    def state_after(self, token_id: int, *, steps: int | None = None) -> Node | None:
        """Return the state after a token, ``None`` after an end token; raise as :meth:`advance`.

        Args:
            token_id: The token.
            steps: Work budget of a state that is not known; by default ``LIMITS.mask_steps``.
        """
        if self.is_finished:
            raise TokenRejectedError(
                f"token {token_id} cannot follow the end token",
                token_id=token_id,
                hint="Create a new matcher for another text",
            )
        is_end = token_id in self.vocabulary.end_token_ids
        if is_end and self.state.nullable:
            return None
        forms = self.vocabulary.token_bytes
        form = forms[token_id] if 0 <= token_id < len(forms) else None
        if form is None:
            raise TokenRejectedError(
                f"token {token_id} is not in the vocabulary, or writes no text",
                token_id=token_id,
                hint="Choose among allowed_tokens()",
            )
        # Fast path: a stored derivative costs no work, so it needs no budget.
        state = self.state.known_word_derivative(form)
        if state is None:
            with step_budget(LIMITS.mask_steps if steps is None else steps):
                state = word_derivative(self.state, form)
            if self._machine is not None:
                self._machine.steps_taken += 1
        if self._limited is not None or begins_with_spelling(self.state):
            with derivative_budget(LIMITS.mask_steps if steps is None else steps):
                state = self.completion.state_after(self.state, state, token_id)
        if state is EMPTY:
            raise TokenRejectedError(
                f"end token {token_id} cannot come here: the text is not complete"
                if is_end
                else f"token {token_id} ({form!r}) cannot come here",
                token_id=token_id,
                hint="Choose among allowed_tokens()",
            )
        return state

    def forced_bytes(self) -> bytes:
        """Return the bytes that every continuation begins with.

        Stops early where finding more takes more than ``LIMITS.mask_steps`` steps.
        """
        forced = bytearray()
        node = self.state
        # Fast path: nothing is forced before a known choice.
        first = node.known_first_bytes
        if self.is_finished or node.nullable or (first is not None and first & (first - 1)):
            return b""
        try:
            with derivative_budget(LIMITS.mask_steps):
                # The spelling of a token is no text.
                while not node.nullable and not begins_with_spelling(node):
                    text = forced_step(node)
                    if not text:
                        break
                    node = node.compute_word_derivative(text)
                    forced += text
        except GrammarBudgetError:
            pass
        return bytes(forced)

    @overload
    def explain(self) -> MaskExplanation: ...

    @overload
    def explain(self, token: int | str) -> TokenExplanation: ...

    def explain(self, token: int | str | None = None) -> TokenExplanation | MaskExplanation:
        """Explain why a token may come next or why not, or what may come next.

        The matcher does not change. Any integer is explained: end tokens, special tokens, unused
        ids and numbers beyond the vocabulary too.

        Args:
            token: A token id; or a text, which is followed byte by byte and may be several tokens
                long. ``None`` describes all allowed tokens.

        Raises:
            InvalidArgumentError: ``token`` is neither an integer nor a string.
            GrammarBudgetError: Following the bytes, or computing the mask, takes more than
                ``LIMITS.mask_steps`` steps.

        >>> from state_machines import RegexStateMachine, Vocabulary
        >>> vocabulary = Vocabulary([b"y", b"ye", b"s", b"</s>"], end_token_ids=[3])
        >>> matcher = RegexStateMachine("yes|no").matcher(vocabulary)
        >>> print(matcher.explain("yet"))
        'yet' is refused: 2 of its 3 bytes fit, and 't' does not.
        After 'ye' may follow: 's'.
        """
        # Deferred: few programs explain masks.
        from state_machines.explanation import explain_mask, explain_token  # noqa: PLC0415

        if self._machine is not None:
            self._machine.steps_taken += _EXPLANATION_STEPS
        if token is None:
            return explain_mask(self.state, self.vocabulary, self.allowed_tokens())
        return explain_token(
            self.state,
            self.vocabulary,
            token,
            self.allowed_tokens,
            is_finished=self.is_finished,
        )

    def _repr_html_(self) -> str:
        """Return what may come next as HTML, which notebooks show."""
        try:
            return self.explain()._repr_html_()
        except GrammarBudgetError as error:
            return error_html(error)

    def copy(self) -> Self:
        """Return an independent matcher in the same state."""
        # A fraction of the time of `copy.copy`.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


_MAX_KNOWN = 10_000

_KNOWN: WeakKeyDictionary[Vocabulary, set[NamedTokens]] = WeakKeyDictionary()
"""The sets that have been checked."""


def check_token_sets(token_sets: Collection[NamedTokens], vocabulary: Vocabulary) -> None:
    """Check that a vocabulary has all tokens that a grammar names.

    A range may hold numbers without a token, as long as there is one token in it.

    Raises:
        UnknownTokenError: A name is no token; a number or a range has none; an end token is named,
            which ends a text instead of being a part of it; or a negated set is empty.
    """
    known = _KNOWN.setdefault(vocabulary, set())
    for tokens in token_sets:
        if tokens not in known:
            _check(tokens, vocabulary)
            if len(known) < _MAX_KNOWN:
                known.add(tokens)


def _check(tokens: NamedTokens, vocabulary: Vocabulary) -> None:
    ends, forms = vocabulary.end_token_ids, vocabulary.token_bytes
    line, column = tokens.position
    error = partial(UnknownTokenError, line=line, column=column)

    def check_ends(ids: list[int], shown: str) -> None:
        if not tokens.is_negated and ends.issuperset(ids):
            raise error(
                f"{shown} is an end token, which ends the whole text",
                token=shown,
                hint="Leave it out: an end token is allowed wherever the text is complete",
            )
        named.update(ids)

    named: set[int] = set()
    for name in tokens.names:
        own = vocabulary.special_tokens.get(name)
        text = name.encode()
        ids = [i for i, form in enumerate(forms) if form == text] if own is None else [own]
        if not ids:
            nearest = get_close_matches(name, list(vocabulary.special_tokens), n=3, cutoff=0.5)
            instead = f'Write "{name}" in quotes for the text, in any tokens'
            raise error(
                f"{name} is no token of the vocabulary",
                token=name,
                nearest=tuple(nearest),
                hint=f"Similar are {', '.join(nearest)}" if nearest else instead,
            )
        check_ends(ids, name)
    for first, last in tokens.ranges:
        shown = f"<[{first}]>" if first == last else f"<[{first}-{last}]>"
        ids = [i for i in range(first, min(last + 1, len(forms))) if forms[i] is not None]
        if not ids and not tokens.is_negated:
            raise error(
                f"the vocabulary has no token {shown}",
                token=shown,
                hint=f"Its numbers are 0 to {vocabulary.size - 1}, some of which have no text",
            )
        check_ends(ids, shown)
    if tokens.is_negated and not any(
        form is not None and i not in ends and i not in named for i, form in enumerate(forms)
    ):
        raise error("no token of the vocabulary is left", token="!")
