"""Which format a model's calls have, told from tokenizers that look like each family's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from family_tokenizers import family_tokenizer

from proxy_engine.conversation.tool_format_detection import chosen, detect, is_open
from proxy_engine.errors import InvalidOptionError
from state_machines.tool_calls import FORMATS, Delimiters, ToolFormat


def format_of(tokenizer: Any, option: Any = None) -> ToolFormat:
    return chosen(tokenizer, detect(tokenizer), option).format


def reasoning_of(tokenizer: Any, option: ToolFormat) -> Delimiters | None:
    return chosen(tokenizer, detect(tokenizer), option).reasoning


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
TEMPLATES_WITHOUT_PARSER = {
    "hunyuan": "<tool_calls>[",
    "olmo3": "<functions>{{ tools }}</functions><function_calls>",
    "phi4_mini": "functools[",
    "xlam": '[{"name": "tool_call_name", "arguments": {}}]',
    "gigachat3": "{{ 'function call' }}<|role_sep|>\n",
    "gigachat3_5": "<｜GCML｜tool_calls>",
    "cohere_cofl": "<cofl:tool_calls><cofl:tool_call id=",
    "granite_20b": "{{ '<function_call> ' + call | tojson }}",
    "minimax_m1": "<tool_calls>\n{}\n</tool_calls><end_of_sentence>",
    "nemotron_nano_v2": "{{ '<TOOLCALL>[' }}",
    "plamo3": "<|plamo:begin_tool_requests:plamo|>",
    "k2_horizon": "<ifm|tool_calls>",
    "dots": "<dots_function_call>",
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
    "step3": FORMATS["step3"].tokens,
    "seed_oss": FORMATS["seed_oss"].tokens,
    "minimax_m3": FORMATS["minimax_m3"].tokens,
    "granite": ("<|tool_call|>", "<|start_of_role|>", "<|end_of_role|>"),
    "cohere": FORMATS["cohere"].tokens,
    "cohere_text": FORMATS["cohere_text"].tokens,
    "hermes": ("<|im_start|>",),
    "hunyuan3": FORMATS["hunyuan3"].tokens,
    "hunyuan4": FORMATS["hunyuan4"].tokens,
    "apertus": FORMATS["apertus"].tokens,
    "internlm": ("<|im_start|>", *FORMATS["internlm"].tokens),
    "phi4_mini": ("<|tool|>", "<|/tool|>", "<|tool_call|>"),
    "gigachat3": ("<|role_sep|>\n", "<|message_sep|>\n\n"),
    "gigachat3_1": ("<|role_sep|>\n", "<|message_sep|>\n\n", "<|function_call|>"),
    "gigachat3_5": ("｜GCML｜", "<|role_sep|>\n"),
    "jamba": ("<|bom|>", "<|eom|>", *FORMATS["jamba"].tokens),
    "solar_open2": ("<|tool_arg:value|>", *FORMATS["solar_open2"].tokens),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_chat_template_tells_the_format(name: str, tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, template=TEMPLATES[name])
    entry = format_of(tokenizer)
    assert entry.name == name
    assert tokenizer.tool_parser.__module__.endswith(str(entry.parser))


COHERE = {*FORMATS["cohere"].tokens, *FORMATS["cohere_text"].tokens}


@pytest.mark.parametrize(
    ("name", "special", "plain", "template"),
    [
        *((name, (), (), template) for name, template in TEMPLATES_WITHOUT_PARSER.items()),
        ("ernie", ("<response>", "</response>"), (), TEMPLATES["hermes"]),
        ("deepseek_r1", (), DEEPSEEK, "x\n```json\n"),
        ("deepseek_v3_2", ("｜DSML｜", *DEEPSEEK), (), "'<' + dsml_token + 'function_calls>\n'"),
        ("deepseek_v4", ("｜DSML｜", *DEEPSEEK), (), "'<' + dsml_token + 'tool_calls>\n'"),
        ("deepseek_v4_1", ("｜DSML｜", *DEEPSEEK), (), "'<' + dsml_token + ' calls>\n'"),
        ("cohere_text", COHERE, (), "<|START_TEXT|>x<|END_TEXT|>"),
        ("cohere", COHERE, (), "<|START_RESPONSE|>"),
        ("openpangu", FORMATS["openpangu"].tokens, (), "[unused11]x[unused12]"),
        ("iquest_q1", (), (), "<iquest_tool_call>f<arg_key>k</arg_key><arg_value>"),
    ],
)
def test_tokens_and_template_together_tell_the_format(
    name: str, special: Any, plain: Any, template: str, tmp_path: Path
) -> None:
    tokenizer = family_tokenizer(tmp_path, special, plain, template=template)
    assert format_of(tokenizer).name == name


@pytest.mark.parametrize("name", ["hunyuan3", "hunyuan4"])
def test_tags_of_hunyuan_have_the_suffix_of_the_tokenizer(name: str, tmp_path: Path) -> None:
    suffixed = [token.replace(">", ":opensource>") for token in FORMATS[name].tokens]
    tokenizer = family_tokenizer(tmp_path, suffixed, ("<think:opensource>",))
    entry = format_of(tokenizer)
    assert (entry.name, entry.tokens) == (name, tuple(suffixed))
    assert entry.start == "<tool_calls:opensource>"
    assert format_of(tokenizer, name) is entry
    assert reasoning_of(tokenizer, entry) == Delimiters("<think:opensource>", "</think:opensource>")
    plain = family_tokenizer(tmp_path, FORMATS[name].tokens)
    assert format_of(plain) is FORMATS[name]


@pytest.mark.parametrize("name", TOKENS)
def test_the_vocabulary_tells_the_format(name: str, tmp_path: Path) -> None:
    assert format_of(family_tokenizer(tmp_path, TOKENS[name])).name == name


def test_mark_of_minimax_m3_precedes_the_tag_of_hermes(tmp_path: Path) -> None:
    template = "{{ ns }}<tool_call> {{ ns }}<invoke {{ tool_call.name }}"
    tokenizer = family_tokenizer(tmp_path, FORMATS["minimax_m3"].tokens, template=template)
    assert tokenizer.tool_parser.__module__.endswith("json_tools")
    assert format_of(tokenizer).name == "minimax_m3"


def test_every_format_can_be_found_or_asked_for(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path)
    assert format_of(tokenizer).name == "hermes"
    assert format_of(tokenizer, "GPT-OSS").name == "gpt_oss"
    for name, entry in FORMATS.items():
        assert format_of(tokenizer, name) is entry
        assert format_of(tokenizer, entry) is entry
    found = {*TEMPLATES, *TEMPLATES_WITHOUT_PARSER, *TOKENS, "deepseek_r1", "ernie"}
    found |= {"deepseek_v4", "deepseek_v4_1", "openpangu", "iquest_q1"}
    on_request = {name for name, entry in FORMATS.items() if "request" in entry.models}
    assert set(FORMATS) - found == {"llama3_python_tag", *on_request}


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
