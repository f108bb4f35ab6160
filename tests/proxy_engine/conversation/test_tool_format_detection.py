"""Which format a model's calls have, told from tokenizers that look like each family's."""

from __future__ import annotations

from pathlib import Path

import pytest
from family_tokenizers import family_tokenizer

from proxy_engine.conversation.tool_format_detection import format_of, is_open, reasoning_of
from proxy_engine.errors import InvalidOptionError
from state_machines.tool_calls import FORMATS, Delimiters

THINK = ("<think>", "</think>")
DEEPSEEK = FORMATS["deepseek_r1"].tokens
TEMPLATES = {
    "hermes": "<tool_call> {{ tool_call.name }} </tool_call>",
    "qwen3_coder": "<tool_call>\n<function= {{ tool_call.name }}",
    "glm4_5": "<arg_key>k</arg_key>\n<arg_value>",
    "glm4_7": "<arg_key>k</arg_key><arg_value>",
    "longcat": "<longcat_tool_call>x<longcat_arg_key>",
    "longcat_json": "<longcat_tool_call>{}",
    "minimax_m2": "<minimax:tool_call>",
    "muse_spark": "<atem:function_calls>",
    "minicpm5": '<function name="f"><param name="p">',
    "kimi_k2": "<|tool_calls_section_begin|>",
    "lfm2": "<|tool_call_start|>",
    "mistral": "[TOOL_CALLS] [",
    "mistral_args": "[TOOL_CALLS]name[ARGS]",
    "function_gemma": "<start_function_call>",
    "gemma4": "<|tool_call>call:f<tool_call|>",
}
TOKENS = {
    "kimi_k3": ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "gpt_oss": FORMATS["gpt_oss"].tokens,
    "llama3": ("<|start_header_id|>", "<|eot_id|>", "<|python_tag|>"),
    "llama4": ("<|python_start|>", "<|python_end|>", "<|start_header_id|>", "<|eot_id|>"),
    "mistral": ("[TOOL_CALLS]", "[AVAILABLE_TOOLS]"),
    "mistral_args": ("[TOOL_CALLS]", "[ARGS]"),
    "gemma3": ("<start_of_turn>", "<end_of_turn>"),
    "deepseek_v3_1": DEEPSEEK,
    "deepseek_v3_2": ("｜DSML｜", *DEEPSEEK),
    "hermes": ("<|im_start|>",),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_chat_template_tells_the_format(name: str, tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, template=TEMPLATES[name])
    entry = format_of(tokenizer)
    assert entry.name == name
    assert tokenizer.tool_parser.__module__.endswith(str(entry.parser))


@pytest.mark.parametrize("name", TOKENS)
def test_the_vocabulary_tells_the_format(name: str, tmp_path: Path) -> None:
    assert format_of(family_tokenizer(tmp_path, TOKENS[name])).name == name


def test_template_distinguishes_deepseek_r1_from_its_successor(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, plain=DEEPSEEK, template="x\n```json\n")
    assert format_of(tokenizer).name == "deepseek_r1"


def test_every_format_can_be_found_or_asked_for(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path)
    assert format_of(tokenizer).name == "hermes"
    for name, entry in FORMATS.items():
        assert format_of(tokenizer, name) is entry
        assert format_of(tokenizer, entry) is entry
    found = {*TEMPLATES, *TOKENS, "deepseek_r1"}
    assert set(FORMATS) - found == {"json_fence", "llama3_python_tag"}


def test_named_tool_is_always_callable(tmp_path: Path) -> None:
    assert format_of(family_tokenizer(tmp_path), "GPT-OSS").name == "gpt_oss"


def test_a_format_that_is_not_known_is_refused_with_those_that_come_near(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"'qwen3_code'.*qwen3_coder") as caught:
        format_of(family_tokenizer(tmp_path), "qwen3_code")
    assert caught.value.option == "tool_format"


def test_reasoning_is_marked_as_the_tokenizer_says(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, plain=THINK)
    assert reasoning_of(tokenizer, FORMATS["hermes"]) == Delimiters(*THINK)


def test_reasoning_is_marked_as_the_format_says_where_it_has_its_own_way(tmp_path: Path) -> None:
    entry = FORMATS["gpt_oss"]
    assert reasoning_of(family_tokenizer(tmp_path, entry.tokens), entry) == entry.reasoning


def test_a_model_without_the_markers_does_not_reason(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, FORMATS["mistral_args"].tokens)
    assert reasoning_of(tokenizer, FORMATS["mistral_args"]) is None
    assert reasoning_of(tokenizer, FORMATS["hermes"]) is None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("<turn>user\nhi<end><turn>assistant\n<think>\n", True),
        ("<turn>user\nhi<end><turn>assistant\n<think>\nHm, I", True),
        ("<turn>user\nhi<end><turn>assistant\n", False),
        ("<turn>user\nhi<end><turn>assistant\n<think>\n\n</think>\n\n", False),
        ("<turn>user\nWhat is <think>?<end><turn>assistant\n", False),
        ("<turn>user\nWhat is </think>?<end><turn>assistant\n<think>", True),
        ("", False),
    ],
)
def test_open_reasoning_is_detected_in_the_prompt(
    prompt: str, expected: bool, tmp_path: Path
) -> None:
    tokenizer = family_tokenizer(tmp_path, special=["<turn>"], plain=THINK)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    assert is_open(tokenizer, ids, Delimiters(*THINK)) is expected
