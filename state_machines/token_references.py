"""Check the tokens that a grammar gives by name or number against a vocabulary."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from functools import partial
from weakref import WeakKeyDictionary

from state_machines.errors import UnknownTokenError
from state_machines.syntax_tree import NamedTokens
from state_machines.vocabulary import Vocabulary

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
