"""Confidences by JSON Pointer: exact choices, and what is not measured."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import InferenceEngine, SpeculationOptions
from proxy_engine.conversation.content import ToolCall
from proxy_engine.errors import InvalidOptionError
from proxy_engine.results.confidence import AnswerValues
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import AnswerPart, ScoredChoice, ScoredOption, Usage

USAGE = Usage(1, 1, 0.0, 0.0)


def choice(output: str, before: str, options: Mapping[str, float], chosen: str) -> ScoredChoice:
    """Return a choice that follows the first occurrence of ``before`` in the output."""
    scored = [ScoredOption(*option) for option in options.items()]
    offset = output.index(before) + len(before)
    assert output[offset:].startswith(chosen)
    return ScoredChoice(
        len(output[:offset].encode()),
        tuple(scored),
        next(option for option in scored if option.text == chosen),
    )


def answer(
    parts: Iterable[AnswerPart],
    parsed: Any,
    *choices: ScoredChoice,
    tool_calls: tuple[ToolCall, ...] = (),
) -> GenerationResult[Any]:
    parts = tuple(parts)
    text = "".join(part.text for part in parts if not part.is_marker and part.name != "tool_call")
    return GenerationResult(
        text=text,
        parsed=parsed,
        finish_reason="tool_calls" if tool_calls else "stop",
        usage=USAGE,
        token_ids=(),
        model="m",
        parts=parts,
        tool_calls=tool_calls,
        scored_choices=choices,
    )


def json_answer(text: str, *choices: ScoredChoice) -> GenerationResult[Any]:
    return answer([AnswerPart("structured", text, pointer="")], json.loads(text), *choices)


COLOUR = '{"colour": "red", "size": 3}'
RED = choice(COLOUR, ": ", {'"red"': 0.75, '"blue"': 0.25}, '"red"')
SIZE = choice(COLOUR, '"size": ', {"1": 0.5, "3": 0.4, "4": 0.1}, "3")


@pytest.mark.parametrize(
    ("text", "choices", "expected"),
    [
        pytest.param(COLOUR, [RED], {"/colour": 0.75}, id="value of a choice"),
        pytest.param(COLOUR, [RED, SIZE], {"": 0.3, "/colour": 0.75, "/size": 0.4}, id="container"),
        pytest.param(
            text := '{"a": 1, "b": 2}',
            [choice(text, ": ", {"1, ": 0.5, "1.0, ": 0.125, "1 , ": 0.125, "10, ": 0.25}, "1, ")],
            {"/a": 0.75},
            id="options with equal values",
        ),
        pytest.param(
            text := '{"year": 1984}',
            [
                dataclasses.replace(
                    choice(text, "19", {"84": 0.9, "85": 0.1}, "84"),
                    forced_bytes=len('{"year": 19'),
                )
            ],
            {"": 0.9, "/year": 0.9},
            id="beginning that was forced",
        ),
        pytest.param(
            text := '{"code": "ab-cd"}',
            [
                first := choice(text, ": ", {'"ab-': 0.5, '"xy-': 0.5}, '"ab-'),
                choice(text, "ab-", {'cd"': 0.5, 'ef"': 0.5}, 'cd"'),
            ],
            {"": 0.25, "/code": 0.25},
            id="value of two choices",
        ),
        pytest.param(text, [first], {}, id="part of a value"),
        pytest.param(
            text := '{"a": true, "b": false}',
            [
                choice(
                    text,
                    'a": ',
                    {
                        'true, "b": false}': 0.4,
                        'true, "b": true}': 0.3,
                        'false, "b": false}': 0.2,
                        "true}": 0.1,
                    },
                    'true, "b": false}',
                )
            ],
            {"": 0.4, "/a": 0.8, "/b": 0.6},
            id="option of several values",
        ),
        pytest.param(
            text := '{"a": [true]}',
            [
                choice(text, "[", {"true": 0.5, "false": 0.5}, "true"),
                choice(text, "true", {"]}": 0.25, ", true]}": 0.75}, "]}"),
            ],
            {"": 0.125, "/a": 0.125, "/a/0": 0.5},
            id="structure counts for the container",
        ),
        pytest.param(
            text := '{"a": true, "b": true}',
            [
                choice(
                    text,
                    '"a": ',
                    {'true, "b": ': 0.5, 'true, "c": ': 0.25, 'false, "b": ': 0.25},
                    'true, "b": ',
                ),
                choice(text, '"b": ', {"true": 0.5, "false": 0.5}, "true"),
            ],
            {"": 0.25, "/a": 0.75, "/b": 0.5},
            id="next member's name counts for the container",
        ),
        pytest.param(
            text := '{"ä": "ö", "b": true}',
            [choice(text, '"b": ', {"true": 0.5, "false": 0.5}, "true")],
            {"/b": 0.5},
            id="offsets are in bytes",
        ),
    ],
)
def test_confidences_follow_from_choices(
    text: str, choices: list[ScoredChoice], expected: dict[str, float]
) -> None:
    result = json_answer(text, *choices)
    assert result.confidences() == pytest.approx(expected)
    assert list(result.confidences()) == list(expected)
    assert result.confidence("") == pytest.approx(expected.get(""))


def test_choice_of_texts_has_the_probability_of_the_text() -> None:
    options = {"cat": 0.5, "catfish": 0.25, "dog": 0.25}
    result = answer(
        [AnswerPart("structured", "cat", pointer="")], "cat", choice("cat", "", options, "cat")
    )
    assert result.confidences() == {"": 0.5}


def test_parts_of_a_composition_are_members_by_name() -> None:
    parts = [
        AnswerPart("note", "Well: "),
        AnswerPart("label", "cat", pointer="/label"),
        AnswerPart("label", "</l>", is_marker=True),
        AnswerPart("facts", '{"legs": 4}', pointer="/facts/0"),
        AnswerPart("facts", '{"legs": 2}', pointer="/facts/1"),
    ]
    output = "".join(part.text for part in parts)
    choices = (
        choice(output, "Well: ", {"cat</l>": 0.5, "catfish</l>": 0.25, "dog</l>": 0.25}, "cat</l>"),
        choice(output, '{"legs": ', {"4": 0.5, "2": 0.5}, "4"),
        choice(output, '4}{"legs": ', {"4": 0.75, "2": 0.25}, "2"),
    )
    result = answer(parts, {"label": "cat", "facts": [{"legs": 4}, {"legs": 2}]}, *choices)
    assert result.confidences() == {
        "": 0.0625,
        "/label": 0.5,
        "/facts": 0.125,
        "/facts/0": 0.5,
        "/facts/0/legs": 0.5,
        "/facts/1": 0.25,
        "/facts/1/legs": 0.25,
    }


def call_parts(name: str, arguments: str) -> list[AnswerPart]:
    return [
        AnswerPart("tool_call", "<tool_call>", is_marker=True),
        AnswerPart("tool_call", f'\n{{"name": "{name}", "arguments": ', True, "/tool_calls/0/name"),
        AnswerPart("tool_call", arguments, pointer="/tool_calls/0/arguments"),
        AnswerPart("tool_call", "}\n", is_marker=True),
    ]


def call(name: str, arguments: str) -> ToolCall:
    return ToolCall("id", name, json.loads(arguments))


@pytest.mark.parametrize("name", ["get", "name", "arguments", "a"])
def test_name_and_arguments_of_a_tool_call_have_pointers(name: str) -> None:
    arguments = '{"unit": "c", "city": "Oslo"}'
    parts = call_parts(name, arguments)
    output = "".join(part.text for part in parts)
    names = {f'{name}", "arguments": {{"': 0.5, f'{name}_all", "arguments": {{"': 0.5}
    choices = (
        choice(output, '{"name": "', names, f'{name}", "arguments": {{"'),
        choice(output, '{"unit": ', {'"c"': 0.75, '"f"': 0.25}, '"c"'),
    )
    result = answer(parts, None, *choices, tool_calls=(call(name, arguments),))
    assert result.confidences() == {"/tool_calls/0/name": 0.5, "/tool_calls/0/arguments/unit": 0.75}
    assert result.confidence("/tool_calls/0/arguments/city") is None
    assert result.confidence("/tool_calls") is None


def test_options_of_a_call_with_the_same_name_count_together() -> None:
    arguments = '{"on": true}'
    parts = call_parts("set", arguments)
    output = "".join(part.text for part in parts)
    rest = '", "arguments": {"on": '
    options = {f"set{rest}true": 0.5, f"set{rest}false": 0.25, f"get{rest}true": 0.25}
    result = answer(
        parts,
        None,
        choice(output, '{"name": "', options, f"set{rest}true"),
        tool_calls=(call("set", arguments),),
    )
    assert result.confidence("/tool_calls/0/name") == 0.75
    assert result.confidence("/tool_calls/0/arguments/on") == 0.5


def test_arguments_in_another_notation_have_values_but_no_exact_confidence() -> None:
    parts = [
        AnswerPart("tool_call", "<function=get>\n", True, "/tool_calls/0/name"),
        AnswerPart("tool_call", "<parameter=on>\ntrue\n</parameter>\n"),
        AnswerPart("tool_call", "</function>", is_marker=True),
    ]
    output = "".join(part.text for part in parts)
    names = choice(output, "<function=", {"get>\n": 0.75, "set>\n": 0.25}, "get>\n")
    scored = choice(output, "<parameter=on>\n", {"true": 0.5, "false": 0.5}, "true")
    result = answer(parts, None, names, scored, tool_calls=(call("get", '{"on": true}'),))
    assert result.confidences() == {"/tool_calls/0/name": 0.75}
    assert result.confidence("/tool_calls/0/arguments/on") is None


def test_free_text_without_log_probabilities_has_no_confidence() -> None:
    assert answer((AnswerPart("text", "Yes."),), None).confidence() is None


@pytest.mark.parametrize(
    ("pointer", "hint"),
    [
        ("colour", "A pointer is empty, or"),
        ("/colour~2", "A pointer is empty, or"),
        ("#/colour", "Leave out the '#'"),
        (["colour"], "A pointer is empty, or"),
        ("/color", "Did you mean '/colour'?"),
        ("/colour/x", "Did you mean '/colour'?"),
    ],
)
def test_pointer_without_a_value_is_refused(pointer: Any, hint: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        json_answer(COLOUR).confidence(pointer)
    assert caught.value.option == "pointer"
    assert caught.value.hint.startswith(hint)


def test_pointer_into_a_text_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no value at '/a'") as caught:
        answer([AnswerPart("text", "Hi")], None).confidence("/a")
    assert caught.value.hint == "The answer is one value, at ''."


def test_output_that_was_cut_off_has_no_values() -> None:
    cut = answer([AnswerPart("structured", '{"a": tr', pointer="")], None)
    assert cut.confidences() == {}
    parts = call_parts("get", '{"unit"')[:3]
    assert answer(parts, None).confidences() == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES, st.lists(VALUES, max_size=4))
def test_choice_of_whole_texts_gives_values_the_shares_of_the_texts_that_have_them(
    value: Any, others: list[Any]
) -> None:
    texts = [json.dumps(each) for each in (value, *others)]
    options = tuple(ScoredOption(text, 1 / len(texts)) for text in texts)
    found = json_answer(texts[0], ScoredChoice(0, options, options[0])).confidences()
    leaves = [
        AnswerValues.of(
            text, json.loads(text), (), [AnswerPart("structured", text, pointer="")]
        ).leaves
        for text in texts
    ]
    for pointer, probability in found.items():
        same = [
            each
            for each in leaves
            if not any(
                name == pointer or name.startswith(f"{pointer}/")
                for name, _ in each.items() ^ leaves[0].items()
            )
        ]
        assert probability == pytest.approx(len(same) / len(texts))


PRICES = '{"a": "xy", "b": [12, 3]}'


def test_tokens_give_each_value_a_confidence() -> None:
    # Each token with its probability; `None` if it was not sampled.
    tokens: list[tuple[str, float | None]] = [
        *(('{"a": ', None), ('"x', 0.5), ("y", 0.8), ('", ', 0.9), ('"b": [', None)),
        *(("1", 0.4), ("2", 0.5), (", ", 0.25), ("3]", 0.1), ("}", None)),
    ]
    texts, shares = zip(*tokens, strict=True)
    result = dataclasses.replace(
        json_answer(PRICES),
        token_lengths=tuple(map(len, texts)),
        token_logprobs=tuple(None if share is None else math.log(share) for share in shares),
    )
    everything = 0.5 * 0.8 * 0.9 * 0.4 * 0.5 * 0.25 * 0.1
    expected = {
        "": (everything, 7),
        "/a": (0.5 * 0.8 * 0.9, 3),
        "/b": (0.4 * 0.5 * 0.25 * 0.1, 4),
        # Without the comma the number could go on.
        "/b/0": (0.4 * 0.5 * 0.25, 3),
        "/b/1": (0.1, 1),
    }
    assert result.confidences() == pytest.approx({name: p for name, (p, _) in expected.items()})
    assert result.confidences(normalized=True) == pytest.approx(
        {name: p ** (1 / count) for name, (p, count) in expected.items()}
    )
    assert result.confidence("/b/1", normalized=True) == pytest.approx(0.1)


def test_exact_choices_replace_the_tokens_that_write_them() -> None:
    drawn = choice(PRICES, "[", {"12": 0.7, "13": 0.3}, "12")
    texts = ['{"a": "xy", "b": [', "12", ", ", "3", "]}"]
    result = dataclasses.replace(
        json_answer(PRICES, drawn),
        token_lengths=tuple(map(len, texts)),
        token_logprobs=(math.log(0.5), None, None, math.log(0.2), None),
    )
    assert result.confidences() == pytest.approx(
        {"": 0.07, "/a": 0.5, "/b": 0.07, "/b/0": 0.7, "/b/1": 0.2}
    )


def test_length_is_normalized_where_tokens_are_recorded() -> None:
    with pytest.raises(InvalidOptionError, match="normalized"):
        json_answer(PRICES).confidences(normalized=True)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 5}])
def test_confidences_do_not_depend_on_drafts_and_forced_text(
    tiny_engine: InferenceEngine, options: dict[str, Any]
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "copy": {"type": "string", "maxLength": 12},
            "count": {"type": "integer", "minimum": 0, "maximum": 9999},
            "kind": {"enum": ["small", "smaller", "large"]},
            "always": {"const": "forced"},
        },
        "required": ["name", "copy", "count", "kind", "always"],
    }
    prompt = "abcabcabc abcabcabc"
    plain = tiny_engine.generate(prompt, schema, confidence=True, speculation="off", **options)
    drafted = tiny_engine.generate(
        prompt,
        schema,
        confidence=True,
        speculation=SpeculationOptions(is_adaptive=False),
        **options,
    )
    assert drafted.text == plain.text
    assert drafted.usage.accepted_tokens or options
    assert drafted.confidences() == pytest.approx(plain.confidences(), rel=1e-3)
    assert drafted.confidences(normalized=True) == pytest.approx(
        plain.confidences(normalized=True), rel=1e-3
    )
    found = plain.confidences()
    assert list(found) == ["", "/name", "/copy", "/count", "/kind", "/always"]
    assert found["/always"] == 1
    assert all(0 < share < 1 for pointer, share in found.items() if pointer != "/always")
    assert plain.logprobs is None
    with tiny_engine.stream(prompt, schema, confidence=True, **options) as stream:
        events = list(stream)
    assert not any(getattr(event, "logprobs", None) for event in events)
    assert events[-1].result.confidences() == pytest.approx(found, rel=1e-3)  # type: ignore[union-attr]


def test_confidence_is_the_product_of_reported_probabilities(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate(
        "x", {"type": "string", "maxLength": 9}, confidence=True, logprobs=0
    )
    logprobs = [token.chosen.after_mask for token in result.logprobs or ()]
    assert len(logprobs) == len(result.token_logprobs) > 5
    assert [logprob or 0.0 for logprob in result.token_logprobs] == pytest.approx(logprobs)
    assert result.confidence() == pytest.approx(math.exp(sum(logprobs)), rel=1e-4)
