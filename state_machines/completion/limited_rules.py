"""Checks that a vocabulary can write the rules of a grammar within their limits on tokens."""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakKeyDictionary, WeakSet

from state_machines.budgets import Verdict
from state_machines.completion.completion import Completion
from state_machines.errors import GrammarBudgetError, UnsatisfiableGrammarError
from state_machines.grammar.token_limits import LimitedRule
from state_machines.limits import LIMITS
from state_machines.vocabulary import Vocabulary

_KNOWN: WeakKeyDictionary[Vocabulary, WeakSet[LimitedRule]] = WeakKeyDictionary()


def check_limited_rules(rules: Collection[LimitedRule], vocabulary: Vocabulary) -> None:
    """Check that some text of each rule is written in at most ``max_tokens`` tokens.

    Tokens that begin before the text or end after it are not considered.

    Raises:
        UnsatisfiableGrammarError: There is no such text for a rule.
        GrammarBudgetError: No such text was found for a rule in time.
    """
    known = _KNOWN.setdefault(vocabulary, WeakSet())
    for rule in rules:
        if rule in known:
            continue
        plural = "s" if rule.max_tokens > 1 else ""
        limit, hint = f"{rule.max_tokens} token{plural}", "Raise max_tokens of the rule"
        verdict = Completion.of(vocabulary).fits(
            rule.body,
            rule.max_tokens,
            plan_steps=LIMITS.plan_steps,
            search_steps=LIMITS.token_search_steps,
        )
        if verdict is Verdict.UNKNOWN:
            raise GrammarBudgetError(
                f"no text of the rule {rule.name!r} that takes at most {limit} was found within "
                f"{LIMITS.token_search_steps:,} steps",
                budget=LIMITS.token_search_steps,
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
        known.add(rule)
