"""Options: validated when built, overridden by name, declared once."""

from __future__ import annotations

import argparse
import copy
import inspect
import math
import pickle
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pydantic
import pytest
from option_overrides_source import option_overrides_source

import proxy_engine.options.overrides
from proxy_engine import (
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    PartOptions,
    ReasoningOptions,
    SpeculationOptions,
)
from proxy_engine.cli.flags import add_option_flags, given_flags
from proxy_engine.extraction.options import ExtractionOptions
from proxy_engine.options.fields import OPTION_NAMES, given_options, with_options
from proxy_engine.options.overrides import OptionOverrides
from samplers import SamplingParameters

NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]


def test_keyword_arguments_are_generated_from_the_model() -> None:
    module = Path(proxy_engine.options.overrides.__file__)
    assert module.read_text(encoding="utf-8") == option_overrides_source(), (
        "write it anew: python tests/support/option_overrides_source.py"
    )
    assert OptionOverrides.__optional_keys__ == set(OPTION_NAMES)
    assert not OptionOverrides.__required_keys__


def test_signatures_list_every_option_with_its_default() -> None:
    methods = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(InferenceEngine, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }
    for name, signature in methods.items():
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        # The options of OpenAI's clients are theirs.
        is_client = name in ("openai", "async_openai")
        assert (inspect.Parameter.VAR_KEYWORD in kinds) == is_client, name
    hints = get_type_hints(OptionOverrides)
    for name in ("generate", "astream", "iter_batch", "run_tools", "iter_extract"):
        parameters = methods[name].parameters
        for option, hint in hints.items():
            field = GenerationOptions.model_fields[option]
            parameter = parameters[option]
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
            assert parameter.default == field.get_default(call_default_factory=True), option
            assert parameter.annotation == hint
    assert methods["generate"].parameters["sampler"].default is None
    # Rarely needed options are last.
    assert list(methods["generate"].parameters)[-2:] == ["prefill_step_size", "trace"]
    for name, field in ExtractionOptions.model_fields.items():
        assert methods["extract"].parameters[name].default == field.default
    assert methods["transcribe"].parameters["task"].default == "transcribe"
    assert methods["__init__"].parameters["lazy"].default is False


def test_every_option_has_a_description() -> None:
    models = (
        GenerationOptions,
        PartOptions,
        ReasoningOptions,
        SpeculationOptions,
        SamplingParameters,
    )
    for model in models:
        assert [n for n, field in model.model_fields.items() if not field.description] == []


def test_overrides_replace_and_leave_the_rest() -> None:
    options = GenerationOptions(max_tokens=9, top_p=0.5)
    changed = options.override({"temperature": 0.7, "prefill_step_size": 3})
    assert changed == GenerationOptions(
        max_tokens=9, prefill_step_size=3, top_p=0.5, temperature=0.7
    )
    assert options.temperature == 0
    assert options.override({}) is options


def test_sampling_of_a_part_overrides_only_what_it_names() -> None:
    options = GenerationOptions(
        top_k=4, temperature=0.5, seed=3, parts={"text": PartOptions(temperature=0, max_tokens=2)}
    )
    assert options.sampling() == SamplingParameters(top_k=4, temperature=0.5, seed=3)
    assert options.sampling("tool_call") == options.sampling()
    assert options.sampling("text") == SamplingParameters(top_k=4, seed=3)
    assert hash(options.sampling()) == hash(options.sampling("tool_call"))


@pytest.mark.parametrize(
    ("overrides", "pointer", "message"),
    [
        ({"temp": 1}, "/temp", "Did you mean 'temperature'"),
        ({"max_token": 1}, "/max_token", "Did you mean 'max_tokens'"),
        ({"schema": {}}, "/schema", "Did you mean 'response_format'"),
        ({"pydantic_model": int}, "/pydantic_model", "Did you mean 'response_format'"),
        ({"response_format": int}, "/response_format", "an argument of generate"),
        ({"draft_model": "m"}, "/draft_model", "argument of InferenceEngine"),
        ({"num_draft_tokens": 3}, "/num_draft_tokens", "field of SpeculationOptions"),
        ({"zzz": 1}, "/zzz", "no option 'zzz'"),
        ({"\ud800": 1}, "/\ud800", "no option"),
        ({"top_p": 1.5}, "/top_p", "top_p should be less than or equal to 1, not 1.5"),
        ({"temperature": 1e-6}, "/temperature", "0 or a number in"),
        ({"max_tokens": 1.5}, "/max_tokens", "valid integer, not 1.5"),
        ({"max_tokens": 10**5000}, "/max_tokens", "less than or equal to 9223372036854775807"),
        ({"max_tokens": True}, "/max_tokens", "valid integer"),
        ({"min_tokens": -(10**5000)}, "/min_tokens", "greater than or equal to 0"),
        ({"max_tokens": 3, "min_tokens": 4}, "/min_tokens", "at most max_tokens, 3"),
        ({"max_seconds": 10**400}, "/max_seconds", "valid number"),
        ({"max_seconds": math.nan}, "/max_seconds", "finite number"),
        ({"max_seconds": 0}, "/max_seconds", "greater than 0"),
        ({"draft_first": True}, "/draft_first", "named 'freeform_first' now"),
        ({"particles": 4}, "/particles", "use exact_choices"),
        ({"soft_max_tokens": 9}, "/soft_max_tokens", "complete within max_tokens"),
        ({"logprobs": 1.0}, "/logprobs", "valid integer"),
        ({"stop": 5}, "/stop", "a non-empty string or a list"),
        ({"stop": b"x"}, "/stop", "a non-empty string or a list"),
        ({"stop": {"x": 1}}, "/stop", "a non-empty string or a list"),
        ({"stop": ["x", None]}, "/stop", "a non-empty string or a list"),
        ({"stop": "\ud800"}, "/stop", "lone surrogates"),
        ({"stop": "a" * 1001}, "/stop", "at most 1,000 characters each"),
        ({"stop": ["a" * 1000] * 65}, "/stop", "64,000 together"),
        ({"stop": ["x", "\udfff"]}, "/stop", "lone surrogates"),
        ({"logit_bias": {-1: 1}}, "/logit_bias", "mapping of distinct token ids"),
        ({"trace": np.True_}, "/trace", "valid boolean"),
        ({"reasoning": NESTED}, "/reasoning", "valid boolean"),
        ({"reasoning": {"max_chars": -1}}, "/reasoning/max_chars", "reasoning.max_chars should"),
        (
            {"speculation": "on"},
            "/speculation",
            "'auto' or 'off', or should be SpeculationOptions or a dictionary of its fields, not 'on'",
        ),
        ({"speculation": True}, "/speculation", "'auto' or 'off'"),
        ({"speculation": NESTED}, "/speculation", "'auto' or 'off'"),
        ({"speculation": {"num_draft_tokens": 0}}, "/speculation/num_draft_tokens", "equal to 1"),
        ({"speculation": {"max_draft_tokens": 65}}, "/speculation/max_draft_tokens", "equal to 64"),
        ({"speculation": {"tokens": 4}}, "/speculation/tokens", "is unknown"),
        ({"parts": {5: PartOptions()}}, "/parts/5", "valid string"),
        ({"parts": {"text": {"top_k": -2}}}, "/parts/text/top_k", "greater than or equal to -1"),
        ({"parts": {"text": {"max_token": 1}}}, "/parts/text/max_token", "is unknown"),
    ],
)
def test_errors_locate_the_invalid_value(overrides: Any, pointer: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        GenerationOptions().override(overrides)
    assert caught.value.pointer == pointer
    assert caught.value.option == next(name for name in overrides if name in pointer)


@pytest.mark.parametrize(
    "given",
    [
        {"is_required": 1},
        {"begin": 5, "end": 6},
        {"begin": "<"},
        {"end": ">"},
        {"begin": "", "end": ""},
        {"begin": "\ud800", "end": "x"},
        {"max_chars": 10**5000},
        {"min_chars": 3, "max_chars": 2},
        {"chars": 2},
    ],
)
def test_invalid_reasoning_options_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        ReasoningOptions(**given)


@pytest.mark.parametrize(
    ("given", "engine", "number", "longest"),
    [
        ({}, None, None, 16),
        ({}, 4, 4, 16),
        ({}, 20, 20, 20),
        ({"num_draft_tokens": 2}, 20, 2, 16),
        ({"num_draft_tokens": 40}, None, 40, 40),
        ({"max_draft_tokens": 3}, None, None, 3),
        ({"max_draft_tokens": 3}, 5, 3, 3),
        ({"max_draft_tokens": 16}, 20, 16, 16),
        ({"max_draft_tokens": 3, "num_draft_tokens": 4}, 5, 3, 3),
    ],
)
def test_number_of_draft_tokens_of_the_engine_is_the_default(
    given: dict[str, Any], engine: int | None, number: int | None, longest: int
) -> None:
    options = SpeculationOptions(**given, prompt_lookup=False).with_defaults(engine)
    assert (options.num_draft_tokens, options.max_draft_tokens) == (number, longest)
    assert not options.prompt_lookup


def test_speculation_has_options_unless_it_is_off() -> None:
    given = SpeculationOptions(max_draft_tokens=3)
    assert GenerationOptions().speculation_options == SpeculationOptions()
    assert GenerationOptions(speculation="off").speculation_options is None
    assert GenerationOptions(speculation=given).speculation_options == given


def test_numpy_numbers_become_python_numbers() -> None:
    options = GenerationOptions(
        max_tokens=np.int64(9), max_seconds=np.float32(0.5), logprobs=np.uint8(2)
    )
    assert (options.max_tokens, options.max_seconds, options.logprobs) == (9, 0.5, 2)
    assert type(options.max_tokens) is type(options.logprobs) is int


def test_options_can_be_copied_and_pickled() -> None:
    options = GenerationOptions(parts={"text": PartOptions(max_tokens=3)}, stop="x")
    assert copy.deepcopy(options) == options
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert again.parts["text"].model_fields_set == {"max_tokens"}


def test_options_are_immutable() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        GenerationOptions().max_tokens = 3  # type: ignore[misc]


@with_options("max_tokens", "stop", "parts", presence_penalty={"ge": -2, "le": 2})
class Body(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    prompt: str


def test_derived_models_have_the_types_ranges_and_descriptions_of_options() -> None:
    body = Body.model_validate_json('{"prompt": "x", "stop": "a", "max_tokens": 3}')
    assert given_options(body) == {"stop": ("a",), "max_tokens": 3}
    for wrong in ({"max_tokens": 0}, {"presence_penalty": 3}, {"temperature": 0}):
        with pytest.raises(pydantic.ValidationError):
            Body.model_validate({"prompt": "x", **wrong})
    field = Body.model_json_schema()["properties"]["max_tokens"]
    assert field["description"] == GenerationOptions.model_fields["max_tokens"].description
    assert {"minimum": 1, "maximum": 2**63 - 1, "type": "integer"} in field["anyOf"]


def test_command_line_flags_derive_from_options(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    names = ("max_tokens", "temperature", "seed", "speculation")
    add_option_flags(parser, GenerationOptions, *names)
    given = ["--max-tokens", "3", "--temperature", "0.5", "--speculation", "off"]
    assert given_flags(parser.parse_args(given), *names) == {
        "max_tokens": 3,
        "temperature": 0.5,
        "speculation": "off",
    }
    with pytest.raises(SystemExit):
        parser.parse_args(["--speculation", "on"])
    assert "choose from 'auto', 'off'" in capsys.readouterr().err
    parser.print_help()
    assert "(default: 2048)" in capsys.readouterr().out
