"""Answers that are the same on one process and on several ranks. To be run on each rank.

Arguments: directories of models. Rank 0 prints the answers of each as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from object_schemas import closed_object

from proxy_engine import InferenceEngine, TextDelta

SCHEMA = closed_object(name={"type": "string", "maxLength": 6}, color={"enum": ["red", "green"]})
TEXT = "the quick brown fox jumps over the lazy dog. " * 2


def answers(engine: InferenceEngine, *, scores: bool = True) -> list[Any]:
    """Answer requests of all kinds, and return tokens and sizes of caches.

    Args:
        engine: The engine.
        scores: Whether its caches have room for options of finite choices.
    """
    found: list[Any] = []
    # A text, the same again from the prompt cache, and one that shares its beginning.
    for prompt in (TEXT, TEXT, TEXT + "It sleeps."):
        result = engine.generate(prompt, temperature=0, max_tokens=8)
        found.append([result.token_ids, result.usage.cached_tokens])
    # Forced text, and drafts that are copied from the prompt.
    record = engine.generate(
        f'{{"name": "{TEXT}"}}', response_format=SCHEMA, temperature=0, max_tokens=32
    )
    found.append(record.token_ids)
    # Rows of different lengths that join and leave the batch.
    prompts = [TEXT[: 9 * n] + "?" for n in range(1, 5)]
    batch = engine.generate_batch(prompts, response_format=SCHEMA, temperature=0, max_tokens=32)
    found.append([one.token_ids for one in batch])
    with engine.stream(TEXT + "Is it cancelled?", temperature=0, max_tokens=32) as stream:
        next(event for event in stream if isinstance(event, TextDelta))
    found.append(engine.generate("afterwards", temperature=0, max_tokens=4).token_ids)
    # Several answers, and the options of a finite choice behind copies of its prefix.
    for exact in ({"n": 3}, {"exact_choices": scores}):
        choice = engine.generate(
            TEXT, response_format=SCHEMA, seed=3, temperature=1, max_tokens=32, **exact
        )
        found += [one.token_ids for one in choice.choices or (choice,)]
    return found


def main() -> None:
    for directory in sys.argv[1:]:
        with InferenceEngine(directory, distributed=True, batch_size=4) as engine:
            print(json.dumps(answers(engine)), flush=True)


if __name__ == "__main__":
    main()
