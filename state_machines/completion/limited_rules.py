"""Checks that a vocabulary can write the rules of a grammar within their limits on tokens."""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakKeyDictionary, WeakSet

from state_machines.completion.completion import Completion
from state_machines.errors import UnsatisfiableGrammarError
from state_machines.grammar.token_limits import LimitedRule
from state_machines.vocabulary import Vocabulary

_KNOWN: WeakKeyDictionary[Vocabulary, WeakSet[LimitedRule]] = WeakKeyDictionary()


def check_limited_rules(rules: Collection[LimitedRule], vocabulary: Vocabulary) -> None:
    """Check that some text of each rule is written in at most ``max_tokens`` tokens.

    Tokens that begin before the text or end after it are not considered.

    Raises:
        UnsatisfiableGrammarError: No such text is found for a rule.
    """
    known = _KNOWN.setdefault(vocabulary, WeakSet())
    for rule in rules:
        if rule in known:
            continue
        if not Completion.of(vocabulary).fits(rule.body, rule.max_tokens):
            line, column = rule.position
            plural = "s" if rule.max_tokens > 1 else ""
            raise UnsatisfiableGrammarError(
                f"no text of the rule {rule.name!r} is found that takes at most "
                f"{rule.max_tokens} token{plural}",
                line=line,
                column=column,
                rule=rule.name,
                hint="Raise max_tokens of the rule",
            )
        known.add(rule)
