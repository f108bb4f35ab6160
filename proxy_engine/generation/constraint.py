"""The constraint of a sequence: its restrictions, and a record of what limits have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import cast

from state_machines import Vocabulary
from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.grammar.node import Node
from state_machines.root import Part

from .fast_forward import Script, must_end
from .restrictions import (
    ADVANCE_STEPS,
    Cut,
    GuardedGrammar,
    Limit,
    MinTokens,
    RestrictedText,
    Restriction,
)
from .sampling import Mask, TextEnd


class Constraint(RestrictedText):
    """The restrictions of one sequence: a function of its tokens, and of time.

    Without restrictions, text ends with an end token or after ``max_tokens``.

    Args:
        restrictions: In the order in which they are asked. Those before the grammar bound the
            tokens left.
        end_token_ids: Tokens that end the text. The first of them is used for a forced end.
        max_tokens: Maximum number of generated tokens.
        usable: The tokens that unconstrained text may have: bool, shape (vocabulary,). ``None``:
            all.
        part: The only part of an answer that is no composition.

    Attributes:
        restrictions: The restrictions.
        script: That of tokens that are known in advance.
        has_grammar: Whether there is a grammar. Without it, no token is refused or forced, and no
            mask takes time.
        max_tokens: Maximum number of generated tokens.
        usable: The tokens that unconstrained text may have.
        forced_text: The text at the end of the output whose tokens had no alternative.
    """

    def __init__(
        self,
        restrictions: Sequence[Restriction],
        end_token_ids: tuple[int, ...],
        max_tokens: int,
        *,
        usable: Mask | None = None,
        part: Part | None = None,
    ) -> None:
        super().__init__(end_token_ids, part)
        self.max_tokens = max_tokens
        self.usable = usable
        self.forced_text = b""
        # The text that a limit refused, as far as other tokens have not spelled it, with what the
        # grammar forces behind it; and the cut before.
        self._refused = b""
        self._earlier: Cut | None = None
        self.restrictions = restrictions
        self.script: Script | None = None
        # The places of these two, and whether a restriction may end the text.
        self._grammar_at, self._script_at, self._may_end = 0, 0, False
        for number, restriction in enumerate(restrictions):
            if isinstance(restriction, GuardedGrammar):
                self.grammar, self._grammar_at = restriction, number
            elif isinstance(restriction, Script):
                self.script, self._script_at = restriction, number
            self._may_end = self._may_end or type(restriction).end is not Restriction.end
        self.has_grammar = self.grammar is not None
        if self.grammar is not None:
            self.matcher = self.grammar.matcher

    def draft(self) -> Constraint:
        """Return an independent constraint in the same state, for tokens that are drafted."""
        # A fraction of the time of `copy.copy`: drafts copy a constraint for each token.
        twin = Constraint.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.restrictions = [restriction.copy(self) for restriction in self.restrictions]
        if self.grammar is not None:
            twin.grammar = cast(GuardedGrammar, twin.restrictions[self._grammar_at])
            twin.matcher = twin.grammar.matcher
        if self.script is not None:
            twin.script = cast(Script, twin.restrictions[self._script_at])
        return twin

    @property
    def temperature(self) -> float | None:
        """The temperature that a rule of the grammar gives the next token."""
        matcher = self.matcher
        return None if matcher is None or not matcher.temperatures else matcher.temperature

    @property
    def expects_fast_forward(self) -> bool:
        """Whether forced text is likely to follow the next token, whose mask is small."""
        return self.script is not None and self.script.expects_text(self)

    @property
    def is_scripted(self) -> bool:
        """Whether a restriction leaves one token that may come next."""
        return any(restriction.is_decided for restriction in self.restrictions)

    @property
    def has_choice(self) -> bool:
        """Whether a finite choice comes next whose options have a distribution.

        Not while end tokens are masked: that distribution is defined for tokens only.
        """
        matcher = self.matcher
        if matcher is None or matcher.is_finished:
            return False
        for restriction in self.restrictions:
            is_missing = isinstance(restriction, MinTokens) and restriction.are_missing(self)
            if is_missing or restriction.is_decided:
                return False
        return finite_choice(matcher.state) is not None

    # Masks.

    def begin_token(self) -> None:
        """Bound the tokens left, before :meth:`accepts`; :meth:`mask` does it, too."""
        if self._grammar_at:
            for restriction in self.restrictions[: self._grammar_at]:
                restriction.mask(self, None, self.generated)

    def mask(self, *, unread: int = 0) -> Mask | None:
        """Return the mask of the next token, bool, shape (vocabulary,); ``None``: all are allowed.

        Args:
            unread: Tokens in front of it that are not taken yet. Only without a grammar.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        allowed, generated = self.usable, self.generated + unread
        for restriction in self.restrictions:
            allowed = restriction.mask(self, allowed, generated)
        return allowed

    def accepts(self, token_id: int) -> bool:
        """Whether a token may come next, and the text can still be completed in time after it."""
        if self.grammar is not None:
            return self.grammar.guard.accepts(token_id)
        return self.usable is None or bool(self.usable[token_id])

    def compute_slow(self) -> None:
        """Compute the mask that was too slow for the model thread, so that :meth:`mask` finds it.

        If it exceeds the step budget of masks, the next token is that of the guard's plan, which is
        always allowed. Callable on any thread while the sequence is not used otherwise.
        """
        if self.grammar is not None:
            self.grammar.compute_slow()

    def follow_plan(self) -> None:
        """Follow the completion plan with the next token, which is always accepted."""
        if self.grammar is not None:
            self.grammar.follow_plan()

    # Tokens.

    def advance(self, token_id: int, *, has_alternatives: bool) -> TextEnd | None:
        """Advance by a token.

        Args:
            token_id: The token.
            has_alternatives: Whether it had alternatives.

        Returns:
            Why the sequence ends with the token; ``None``: it does not. Between turns of one
            answer, end tokens do not end it.

        Raises:
            GrammarBudgetError: The state after the token exceeds the step budget.
        """
        matcher, form = self.matcher, b""
        if matcher is not None:
            form = matcher.vocabulary.token_bytes[token_id] or b""
            form = form.replace(Vocabulary.SPECIAL_MARK, b"")
            self.written += len(form)
            self.forced_text = b"" if has_alternatives else self.forced_text + form
            if self._refused:
                self._compare(form)
        for restriction in self.restrictions:
            restriction.take(self, token_id, form)
        self.generated += 1
        if token_id in self.end_token_ids and (matcher is None or matcher.is_finished):
            return "stop"
        limit: Limit | None = None
        if self.generated >= self.max_tokens:
            limit = "max_tokens"
        elif self._may_end:
            limit = next(filter(None, (each.end(self) for each in self.restrictions)), None)
        if limit is None:
            return None
        if not (self.is_limited or (matcher is not None and must_end(matcher.state))):
            self.cut_off(limit)
        return "length"

    def forced_tokens(self, tokens: Sequence[int]) -> Iterable[int]:
        """Return the tokens that need no sampling: forced text, and a forced end.

        Each has to be taken before the next one.

        Args:
            tokens: All tokens of the sequence so far.
        """
        if self.matcher is None or self.script is None:
            return ()
        state = self.matcher.state
        first = state.known_first_bytes
        if first is not None and (first & (first - 1) or (first and state.nullable)):
            # Several bytes can follow, or an end or a byte: nothing is forced.
            return ()
        return self.script.forced_tokens(self, tokens)

    def restrict(self, state: Node, tokens: Sequence[int]) -> None:
        """Restrict the grammar to an option that was drawn.

        If every token is sampled, the option's tokens are the only ones that :meth:`mask` allows
        next, one after the other, as far as they are accepted.

        Args:
            state: The option.
            tokens: Its tokens.
        """
        if self.grammar is not None:
            with step_budget(ADVANCE_STEPS):
                self.grammar.guard.restrict(state)
        if self.script is not None:
            self.script.write(tokens)

    # What limits have changed.

    def refuse(self, token_id: int) -> None:
        """Make masks exact until the next token, since the guard refuses the sampled one.

        If a limit leaves too few tokens after the sampled token, the cut is recorded. The limit has
        changed nothing if other tokens spell the same text, and text that the grammar forces behind
        it.
        """
        grammar = self.grammar
        if grammar is None:
            return
        grammar.is_exact = True
        if self.script is not None:
            self.script.write(())
        state = None if self.is_limited else grammar.guard.state_after(token_id)
        limit = None if state is None else grammar.exceeded_limit(state, 1)
        if limit is None:
            return
        earlier, form = self.cut, grammar.matcher.vocabulary.token_bytes[token_id] or b""
        form = form.replace(Vocabulary.SPECIAL_MARK, b"")
        self.cut_off(limit, form)
        after = grammar.matcher.copy()
        with suppress(GrammarBudgetError), step_budget(ADVANCE_STEPS):
            after.advance(token_id)
            self._refused, self._earlier = form + after.forced_bytes(), earlier

    def refuse_option(self, option: ChoiceOption) -> None:
        """Record that an option would be drawn if it did not exceed a limit."""
        limit = None if self.grammar is None else self.grammar.exceeded_limit(option.state, 0)
        if limit is not None:
            self.cut_off(limit, option.text.replace(Vocabulary.SPECIAL_MARK, b""))

    def _compare(self, form: bytes) -> None:
        """Withdraw the cut once other tokens have spelled the refused text."""
        is_spelled = self._refused.startswith(form)
        self._refused = self._refused[len(form) :] if is_spelled else b""
        if (
            is_spelled
            and self.cut is not None
            and self.written >= self.cut.offset + len(self.cut.refused)
        ):
            self.cut, self._refused, self.is_limited = self._earlier, b"", False
