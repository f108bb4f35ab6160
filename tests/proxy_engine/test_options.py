"""Options: validated when built, overridden by name."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from proxy_engine import GenerationOptions, InvalidOptionError, PartOptions, ReasoningOptions
from proxy_engine.options import OptionOverrides
from samplers import SamplingParameters

NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]


def test_overrides_are_all_options_there_are() -> None:
    names = {field.name for field in dataclasses.fields(GenerationOptions)}
    names |= {field.name for field in dataclasses.fields(SamplingParameters)}
    assert OptionOverrides.__optional_keys__ == names
    assert not OptionOverrides.__required_keys__


def test_overrides_replace_and_leave_the_rest() -> None:
    options = GenerationOptions(max_tokens=9, sampling=SamplingParameters(top_p=0.5))
    changed = options.override({"temperature": 0.7, "prefill_step_size": 3})
    assert changed == GenerationOptions(
        max_tokens=9,
        prefill_step_size=3,
        sampling=SamplingParameters(top_p=0.5, temperature=0.7),
    )
    assert options.sampling.temperature == 0


def test_sampling_and_its_parts_compose() -> None:
    sampling = SamplingParameters(top_k=4)
    changed = GenerationOptions().override({"sampling": sampling, "min_p": 0.1})
    assert changed.sampling == SamplingParameters(top_k=4, min_p=0.1)


@pytest.mark.parametrize(
    ("overrides", "option", "message"),
    [
        ({"temp": 1}, "temp", "Did you mean 'temperature'"),
        ({"max_token": 1}, "max_token", "Did you mean 'max_tokens'"),
        ({"zzz": 1}, "zzz", "Known are"),
        ({"top_p": 1.5}, "top_p", "top_p"),
        ({"max_tokens": 1.5}, "max_tokens", "at least 1"),
        ({"max_tokens": None}, "max_tokens", "at least 1"),
        ({"sampling": {"top_p": 1}}, "sampling", "SamplingParameters"),
        ({"sampling": 5, "top_p": 0.5}, "sampling", "SamplingParameters"),
        ({"stop": 5}, "stop", "a string or several"),
        ({"stop": 0}, "stop", "a string or several"),
        ({"stop": b"x"}, "stop", "a string or several"),
        ({"stop": {"x": 1}}, "stop", "a string or several"),
        ({"stop": ["x", None]}, "stop", "a string or several"),
        ({"stop": "\ud800"}, "stop", "half a surrogate pair"),
        ({"stop": ["x", "\udfff"]}, "stop", "half a surrogate pair"),
        ({"max_tokens": 10**5000}, "max_tokens", "at least 1"),
        ({"max_tokens": True}, "max_tokens", "at least 1"),
        ({"min_tokens": -(10**5000)}, "min_tokens", "at least 0"),
        ({"max_seconds": 10**400}, "max_seconds", "positive number"),
        ({"max_seconds": math.nan}, "max_seconds", "positive number"),
        ({"trace": np.True_}, "trace", "true or false"),
        ({"reasoning": NESTED}, "reasoning", "true, false"),
        ({"parts": {5: PartOptions()}}, "parts", "by the identifier"),
    ],
)
def test_errors_name_the_option(overrides: Any, option: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        GenerationOptions().override(overrides)
    assert caught.value.option == option


@pytest.mark.parametrize(
    "given",
    [
        {"is_required": 1},
        {"begin": 5, "end": 6},
        {"begin": "<"},
        {"begin": "", "end": ""},
        {"begin": "\ud800", "end": "x"},
        {"max_chars": 10**5000},
    ],
)
def test_reasoning_options_that_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        ReasoningOptions(**given)


def test_numbers_of_numpy_are_kept_as_numbers_of_python() -> None:
    options = GenerationOptions(
        max_tokens=np.int64(9), max_seconds=np.float32(0.5), logprobs=np.uint8(2)
    )
    assert (options.max_tokens, options.max_seconds, options.logprobs) == (9, 0.5, 2)
    assert type(options.max_tokens) is type(options.logprobs) is int


def test_options_can_be_copied_and_pickled() -> None:
    options = GenerationOptions(parts={"text": PartOptions(max_tokens=3)}, stop="x")
    assert copy.deepcopy(options) == options
    assert pickle.loads(pickle.dumps(options)) == options
