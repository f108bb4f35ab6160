"""Plans that complete the states of all machines of a vocabulary, in few tokens."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from state_machines.budgets import (
    UNBOUNDED,
    Verdict,
    derivative_budget,
    spend,
    step_budget,
)
from state_machines.caches import WeakKeyLruCache
from state_machines.completion.next_tokens import UNKNOWN, NextTokens, enter_walked
from state_machines.completion.shortest_texts import ShortestTexts
from state_machines.completion.texts import (
    COMPLETE,
    NOTHING,
    UNWRITABLE,
    CompletionText,
    Plan,
    Segmenter,
)
from state_machines.errors import (
    GrammarBudgetError,
    UnsatisfiableGrammarError,
    UnwritableTextError,
)
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.rule_options import LimitedRule, count_token
from state_machines.grammar.tokens import begins_with_spelling
from state_machines.limits import LIMITS
from state_machines.masks.mask_store import MaskStore
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.state_table import TooManyStatesError
from state_machines.vocabulary import PerVocabulary, Vocabulary

Mask = npt.NDArray[np.bool_]

_LIMITED_STATES = 16_384
"""States of the automaton of a state that limits tokens."""


class Completion(PerVocabulary):
    """Finds short completions of states. Thread-safe.

    Every state that is not dead has a plan. Plans are made from a short word of the state, which
    costs microseconds and need not be the shortest. Only if the vocabulary cannot write that word,
    tokens are searched for. Results are cached with the states, within bounds.

    No lock is held while a plan is made: two threads that ask for the same plan may both make it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._store = store = MaskStore.of(vocabulary)
        self._forms = vocabulary.token_bytes
        self._spelled = spelled = SpelledTokens.of(vocabulary)
        self._segmenter = Segmenter(store.trie)
        self._texts = ShortestTexts(self._segmenter, spelled)
        self._ends = sorted(vocabulary.end_token_ids)
        self._next = NextTokens(vocabulary, store, self.counted)
        # Results that more steps may improve are stored with the steps that they hold for.
        self._composed: WeakKeyLruCache[Node, tuple[int, Plan | None]] = WeakKeyLruCache(
            LIMITS.plans
        )
        self._searched: WeakKeyLruCache[Node, tuple[int, Plan | None, bool]] = WeakKeyLruCache(
            LIMITS.completion_tokens
        )

    def plan(self, state: Node, *, steps: int = LIMITS.plan_steps) -> Plan:
        """Return a plan that completes a text from a state; its tokens are not listed yet.

        Raises:
            GrammarBudgetError: No plan was found within ``steps`` steps, or as many of a search.
            UnwritableTextError: No tokens of the vocabulary write any completion.
        """
        plan = self._composed_plan(state, steps)
        if plan is None:
            plan = self.shortest(state, steps=min(steps, LIMITS.token_search_steps))[0]
        return plan

    def _composed_plan(self, state: Node, steps: int) -> Plan | None:
        """Return a plan that writes a short word; ``None`` if no tokens write that word.

        Raises:
            GrammarBudgetError: No short word was found within ``steps`` steps.
        """
        if state.nullable:
            return COMPLETE
        known = self._composed.peek(state)
        if known is None or known[0] < steps:
            budget = derivative_budget(steps)
            with budget:
                plan = self._compose(state, steps)
            granted = budget.granted if plan is None else UNBOUNDED
            known = self._composed.put(state, (granted, plan))
        return known[1]

    def _compose(self, state: Node, steps: int) -> Plan | None:
        text, length = self._short_text(state, steps)
        return Plan(partial(self._segmenter.tokens, text), length) if length < UNWRITABLE else None

    def _short_text(self, state: Node, steps: int) -> tuple[CompletionText, int]:
        """Return a short text that completes a state, and the fewest tokens that write it."""
        text = self._texts.text(state, steps)
        return (NOTHING, UNWRITABLE) if text is None else (text, self._segmenter.fewest(text))

    def state_after(self, state: Node, target: Node, token_id: int) -> Node:
        """Return the state after a token that is not an end token; :data:`EMPTY` if it is refused.

        Args:
            state: The state before the token.
            target: The derivative by the bytes of the token.
            token_id: The token.
        """
        if begins_with_spelling(state):
            target = union((target, self._spelled.after(state, token_id)))
        return self.counted(target)

    def counted(self, state: Node) -> Node:
        """Return the state at the end of a token; :data:`EMPTY` if a limit refuses the token."""
        return state

    def length(self, state: Node, *, steps: int = LIMITS.plan_steps) -> int:
        """Return the length of :meth:`plan`, without an end token; 0 where the state accepts.

        Fewer tokens may do, see :meth:`shortest`. Raises as :meth:`plan`.
        """
        return self.plan(state, steps=steps).length

    def lower_bound(self, state: Node) -> int:
        """Return a lower bound on the tokens of every completion, from its length; at no cost."""
        return 0 if state.nullable else max(1, -(-state.min_length // self._segmenter.longest))

    def shortest(
        self, state: Node, *, at_most: int = 0, steps: int = LIMITS.token_search_steps
    ) -> tuple[Plan, bool]:
        """Search for the fewest tokens that complete a text from a state.

        Args:
            state: A state that is not dead.
            at_most: The search stops once it has found this many tokens or fewer.
            steps: Work budget; the search ends with the best plan found so far.

        Returns:
            The plan, and whether it is proven that no plan has fewer tokens.

        Raises:
            GrammarBudgetError: No plan was found in time.
            UnwritableTextError: No tokens of the vocabulary write any completion.
        """
        known = self._searched.get(state)
        if known is None or known[0] < steps:
            plan = self._composed_plan(state, LIMITS.plan_steps)
            if plan is COMPLETE:
                return plan, True
            least = UNWRITABLE if plan is None else plan.length
            budget = derivative_budget(steps)
            tokens, is_exact = self._next.fewest(
                state,
                least,
                at_most,
                lower_bound=self.lower_bound,
                estimate=self._estimate,
                budget=budget,
            )
            if tokens is not None:
                plan = Plan(tokens, len(tokens))
            known = UNBOUNDED if is_exact else budget.granted, plan, is_exact
            if plan is None or plan.length > at_most:
                self._searched.put(state, known, 1 + len(tokens or ()))
        _, plan, is_exact = known
        if plan is None:
            raise _no_plan(steps, is_exact)
        return plan, is_exact

    def within(
        self,
        state: Node,
        allowed: Mask,
        max_tokens: int,
        *,
        steps: int = LIMITS.full_restriction_steps,
    ) -> Mask:
        """Return the allowed tokens after which ``max_tokens`` tokens complete the text.

        Args:
            state: The state before the token.
            allowed: The state's mask: bool, shape (vocabulary size,).
            max_tokens: Number of tokens that may follow.
            steps: Work budget. Tokens that are not decided within it are left out.

        Returns:
            A mask of the same shape. End tokens stay as they are.
        """
        needed = self._next.needed_after(
            state, allowed, lambda node: self.length(self.counted(node), steps=steps), steps
        )
        result = allowed & (needed <= max_tokens)
        result[self._ends] = allowed[self._ends]
        return result

    def keeps_all(self, state: Node, allowed: Mask, max_tokens: int) -> bool:
        """Whether an earlier call of :meth:`within` has shown that it keeps every allowed token."""
        # A mask that cannot be changed is that of the state.
        return not allowed.flags.writeable and self._next.keeps_all(state, max_tokens)

    def _estimate(self, state: Node) -> int:
        return self._short_text(state, LIMITS.plan_steps)[1]


def _no_plan(steps: int, is_exact: bool) -> GrammarBudgetError | UnwritableTextError:
    if is_exact:
        return UnwritableTextError(
            "no tokens complete the text",
            hint="Use a vocabulary that has every byte that the grammar needs",
        )
    return GrammarBudgetError(
        "no tokens that complete the text were found in time",
        budget=steps,
        hint="Require less text, simplify the schema or grammar, or use a vocabulary "
        "that has every byte that it needs",
    )


class LimitedCompletion(Completion):
    """Masks and plans of machines that limit the tokens of rules.

    The masks are those of the grammar without the tokens that a limit refuses.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._masks: WeakKeyLruCache[Node, Mask] = WeakKeyLruCache(LIMITS.dense_mask_bytes)
        self._checked: WeakSet[LimitedRule] = WeakSet()
        self._fitting: WeakKeyLruCache[Node, int] = WeakKeyLruCache(LIMITS.completion_tokens)

    def counted(self, state: Node) -> Node:
        """Return the state at the end of a token; :data:`EMPTY` if a limit refuses the token."""
        return count_token(state, self.fits)

    def _compose(self, state: Node, steps: int) -> Plan | None:
        found = super()._compose(state, steps)
        return None if found is None or not self._is_allowed(state, found) else found

    def fits(
        self,
        body: Node,
        max_tokens: int,
        *,
        plan_steps: int = LIMITS.token_plan_steps,
        search_steps: int = LIMITS.restriction_steps,
    ) -> Verdict:
        """Return whether some word of a language takes at most ``max_tokens`` tokens.

        Where that is found, it is also known of the states after each token of the word.

        Args:
            body: The language.
            max_tokens: The number of tokens.
            plan_steps: Work budget of a plan.
            search_steps: Work budget of the search, if the plan is too long.
        """
        known = self._fitting.get(body)
        if body.nullable or (known is not None and known <= max_tokens):
            return Verdict.YES
        if self.lower_bound(body) > max_tokens:
            return Verdict.NO
        try:
            plan = self.plan(body, steps=plan_steps)
            if plan.length > max_tokens:
                plan, is_exact = self.shortest(body, at_most=max_tokens, steps=search_steps)
                if plan.length > max_tokens:
                    return Verdict.NO if is_exact else Verdict.UNKNOWN
            self._note_fitting(body, plan)
        except UnwritableTextError:
            return Verdict.NO
        except GrammarBudgetError:
            return Verdict.UNKNOWN
        return Verdict.YES

    def _note_fitting(self, state: Node, plan: Plan) -> None:
        """Store how many tokens complete a state, and the states after the tokens of its plan."""
        for at, token_id in enumerate(plan.tokens):
            known = self._fitting.get(state)
            if known is not None and known <= plan.length - at:
                break
            spend()
            self._fitting.put(state, plan.length - at)
            state = state.word_derivative(self._forms[token_id] or b"")

    def _is_allowed(self, state: Node, plan: Plan) -> bool:
        """Return whether the tokens of a plan keep the limits on tokens."""
        for token_id in plan.tokens:
            spend()
            target = state.word_derivative(self._forms[token_id] or b"")
            state = self.state_after(state, target, token_id)
        return state.nullable

    def allowed(self, state: Node, steps: int | None = None) -> Mask:
        """Return the mask of a state of the machine, as :meth:`MaskStore.allowed`.

        Of more than ``LIMITS.restricted_tokens`` tokens that lead to too many states, the longest
        are left out.
        """
        known = self._masks.peek(state)
        if known is None:
            budget = derivative_budget(LIMITS.mask_steps if steps is None else steps)
            with budget:
                known = self._mask(state)
            known.flags.writeable = False
            if not budget.is_exhausted:
                self._masks.put(state, known, known.nbytes)
        return known

    def _mask(self, state: Node) -> Mask:
        refused = np.full(len(self._forms), UNKNOWN, np.int32)

        def is_refused(target: Node) -> int:
            return self.counted(target) is EMPTY

        try:
            walk = self._next.walked(state, _LIMITED_STATES)
            enter_walked(walk, np.ones(len(refused), np.bool_), is_refused, refused)
        except TooManyStatesError:
            tokens = self._store.allowed(state)
            # Tokens that are not decided are left out.
            with suppress(GrammarBudgetError), step_budget(LIMITS.full_restriction_steps):
                self._next.enter_single(
                    state, tokens, is_refused, refused, LIMITS.restricted_tokens
                )
        mask: Mask = refused == 0
        for target, ids in self._spelled.targets(state):
            mask[ids] |= self.counted(target) is not EMPTY
        mask[self._ends] = state.nullable
        if not mask.any():
            # A shorter plan may be known for this state than for the next one.
            first = self.plan(state).first
            if first is not None:
                mask[first] = True
        return mask

    def check(self, rules: Collection[LimitedRule]) -> None:
        """Check that some text of each rule is written in at most ``max_tokens`` tokens.

        Tokens that begin before the text or end after it are not considered.

        Raises:
            UnsatisfiableGrammarError: There is no such text for a rule.
            GrammarBudgetError: No such text was found for a rule in time.
        """
        for rule in rules:
            if rule in self._checked:
                continue
            plural = "s" if rule.max_tokens > 1 else ""
            limit, hint = f"{rule.max_tokens} token{plural}", "Raise max_tokens of the rule"
            steps = LIMITS.token_search_steps
            verdict = self.fits(
                rule.body, rule.max_tokens, plan_steps=LIMITS.plan_steps, search_steps=steps
            )
            if verdict is Verdict.UNKNOWN:
                raise GrammarBudgetError(
                    f"no text of the rule {rule.name!r} that takes at most {limit} was found "
                    f"within {steps:,} steps",
                    budget=steps,
                    hint=hint,
                )
            if verdict is Verdict.NO:
                line, column = rule.position
                raise UnsatisfiableGrammarError(
                    f"no text of the rule {rule.name!r} takes at most {limit}",
                    line=line,
                    column=column,
                    rule=rule.name,
                    hint=hint,
                )
            self._checked.add(rule)
