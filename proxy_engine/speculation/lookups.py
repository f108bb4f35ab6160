"""The drafters that need no model."""

from __future__ import annotations

from collections.abc import Sequence

from state_machines import Vocabulary

from .drafter import Drafter
from .prompt_lookup import PromptLookup
from .retokenize import Retokenize
from .value_lookup import ValueLookup


def lookups(
    prompt_ids: Sequence[int], vocabulary: Vocabulary, retokenize: Retokenize
) -> list[Drafter]:
    """Return the lookups of one sequence, the preferred one first.

    They do no work before their first use.

    Args:
        prompt_ids: The prompt.
        vocabulary: The tokens.
        retokenize: Tokenizes proposed text.
    """
    return [ValueLookup(prompt_ids, vocabulary, retokenize), PromptLookup()]
