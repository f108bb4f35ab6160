"""One assertion for tables of cases: these texts are admitted by a schema, and those are not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from call_walks import longest_first
from judging import Judge
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, StateMachine, TokenRejectedError

__all__ = ["URIS", "assert_texts", "written_by_tokens"]

URIS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}

VOCABULARY = small_vocabulary()
TOKENS = {form: id for id, form in enumerate(VOCABULARY.token_bytes) if form is not None}


def written_by_tokens(machine: StateMachine, text: str) -> bool:
    """Whether a text can be written in tokens and then be ended."""
    matcher = machine.matcher(VOCABULARY)
    for token_id in longest_first(text.encode(), TOKENS):
        allowed = bool(matcher.allowed_tokens()[token_id])
        try:
            matcher.advance(token_id)
        except TokenRejectedError:
            assert not allowed
            return False
        assert allowed
    end = min(VOCABULARY.end_token_ids)
    assert matcher.allowed_tokens()[end] == matcher.is_accepting
    return matcher.is_accepting


def assert_texts(
    schema: Any,
    admitted: Iterable[str],
    refused: Iterable[str],
    *,
    judged: bool = True,
    **options: Any,
) -> None:
    """Assert which texts a schema admits, on bytes and on tokens.

    ``judged``: the judge must say the same; not so where a text is refused for its spelling.
    """
    machine = JsonSchemaStateMachine(schema, **options)
    judge = Judge(schema) if judged else None
    for texts, expected in ((admitted, True), (refused, False)):
        for text in texts:
            assert machine.matches(text) == expected, text
            assert written_by_tokens(machine, text) == expected, text
            assert judge is None or judge.admits_text(text) == expected, f"the judge on {text}"
