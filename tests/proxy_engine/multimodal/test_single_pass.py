"""Forced text behind a prompt whose tokens attend to later ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from vision_models import sample_image
from vision_prompts import encoded, image, logits_behind, read_prompt

from proxy_engine import ImageContent, InferenceEngine, Interaction, TextContent
from proxy_engine.models.loading import LoadedModel
from state_machines import RegexStateMachine


def test_last_token_of_the_prompt_is_in_its_pass_if_forced_text_follows(
    checkpoint: Callable[[str], Path], loaded: Callable[[str], LoadedModel]
) -> None:
    model = loaded("paligemma")
    file = io.BytesIO()
    sample_image(0).save(file, "PNG")
    question = Interaction("user", [ImageContent(data=file.getvalue()), TextContent("n")])
    with InferenceEngine(checkpoint("paligemma")) as engine:
        result = engine.generate(
            [question],
            response_format=RegexStateMachine("The number is [0-9]{2}!"),
            temperature=0.0,
            max_tokens=40,
        )
    assert result.usage.fast_forwarded_tokens > 0

    cache, _, _ = read_prompt(model, encoded(model, [["<image>", "n"]], image(0)))
    logits = logits_behind(model, cache, [result.token_ids], [0])[0]
    digits = [model.tokenizer.encode(digit)[-1] for digit in "0123456789"]
    places = [n for n, token in enumerate(result.token_ids) if token in digits]
    assert len(places) == 2
    for place in places:
        assert result.token_ids[place] == digits[int(np.argmax(logits[place - 1][digits]))]
