"""The lookups of one sequence."""

from __future__ import annotations

import threading

from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine.generation import FastForward, text_encoder
from proxy_engine.speculation import lookups
from state_machines import Vocabulary


class UnreadPrompt(list[int]):
    """A prompt whose tokens must not be read."""

    def __getitem__(self, key: object) -> None:  # type: ignore[override]
        raise AssertionError("the prompt was read")


def test_lookups_of_values_come_first_and_do_no_work_before_their_use(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    vocabulary = Vocabulary.from_tokenizer(tiny_tokenizer)
    forward = FastForward(text_encoder(tiny_tokenizer, threading.Lock()), vocabulary)
    drafters = lookups(UnreadPrompt([1, 2, 3]), vocabulary, forward)
    assert [drafter.name for drafter in drafters] == ["value_lookup", "prompt_lookup"]
    assert not any(drafter.expects_draft(None) for drafter in drafters)
