"""Answers to MaskBench's schemas are complete within ``max_tokens``."""

from __future__ import annotations

from random import Random

import pytest
from data_files import NO_MASKBENCH, maskbench_file, tokenizer_files
from guarded_walks import random_walk
from small_vocabulary import small_vocabulary
from suites import maskbench
from tokenizers import Tokenizer
from verdicts import Case

from state_machines import (
    JsonSchemaStateMachine,
    MaxTokensTooSmallError,
    ProxyError,
    Vocabulary,
)
from state_machines.completion import Completion, Guard

SAMPLE = 15
"""Schemas; a third of them with the vocabularies of real tokenizers."""

pytestmark = pytest.mark.skipif(maskbench_file() is None, reason=NO_MASKBENCH)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """A sample of the schemas, the same every time."""
    return Random(0).sample(list(maskbench()), SAMPLE)


@pytest.fixture(scope="module", params=["small", *tokenizer_files(few=True)], ids=str)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """The small vocabulary and those of real tokenizers."""
    if request.param == "small":
        return small_vocabulary()
    return Vocabulary.from_tokenizer(Tokenizer.from_file(str(request.param)))


def test_outputs_for_real_schemas_are_complete_within_max_tokens(
    cases: list[Case], vocabulary: Vocabulary
) -> None:
    completion, random = Completion.of(vocabulary), Random(1)
    tried = 0
    if vocabulary.size > 1000:
        cases = cases[: SAMPLE // 3]
    for case in cases:
        try:
            machine = JsonSchemaStateMachine(case.schema)
        except ProxyError:
            continue
        planned = completion.length(machine.start)
        for max_tokens in (
            {planned, planned + random.randint(1, 50)} if planned < 200 else {planned}
        ):
            guard = Guard(machine.matcher(vocabulary), max_tokens)
            written = random_walk(guard, random, completion)
            assert machine.matches(vocabulary.decode(written))
            tried += 1
        needed = completion.shortest(machine.start, at_most=planned - 1)[0].length
        with pytest.raises(MaxTokensTooSmallError) as caught:
            Guard(machine.matcher(vocabulary), needed - 1)
        assert caught.value.needed <= needed
    assert tried > len(cases)
