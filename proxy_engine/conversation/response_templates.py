"""Tool formats that are described: by a response template, or by the chat template's own calls.

A response template is compiled and verified when the model is loaded: random calls, reasoning and
content are written under its grammar, and transformers' parser has to read the same. The verdict is
stored in the cache directory, since the import of transformers takes longer than the check.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from state_machines.compiled_library import cache_directory
from state_machines.errors import CompositionError
from state_machines.root import RootStateMachine
from state_machines.tool_calls import (
    EXAMPLE_CALLS,
    ToolFormat,
    ToolSignature,
    compile_response_template,
)
from state_machines.tool_calls.derived_templates import template_of_example
from state_machines.tool_calls.template_compiler import REASONING_FIELDS

from ..runtime.cache_directory import build_once
from .chat_template import ANSWER, QUESTION, RESULT, chat_template
from .tool_text import PLAIN_FORMAT, write_calls

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text", "count", "list"],
    "additionalProperties": False,
}
_TOOLS = tuple(ToolSignature(name, _PARAMETERS) for name in ("first", "second"))
_DEFINITIONS: list[Any] = [
    {"type": "function", "function": {"name": each.name, "parameters": each.parameters}}
    for each in _TOOLS
]
_CHECK = 1
"""Part of a verdict's name. A change of the check increments it."""

_VERDICT = "difference.json"
_ALPHABETS = ("aZ09 é😀\\/\n.,:;={}[]()<>&'\"#", "aZ09 é😀.,;()&'", "aZ09")
"""Letters of random texts; a later alphabet is used if a grammar admits no such text."""


def verified_format(
    tokenizer: TokenizerWrapper, template: Mapping[str, Any], family: ToolFormat
) -> ToolFormat:
    """Return the tool format of a response template.

    The texts around arguments are those of the first example that transformers reads: the calls of
    the chat template, those of the family, short ones.

    Args:
        tokenizer: The model's tokenizer.
        template: Its response template.
        family: The format that the model would have without it.

    Raises:
        CompositionError: The template cannot be compiled, or transformers reads something else than
            the model writes.
    """
    special, ends = _special_tokens(tokenizer)
    difference: str | None = None
    tried = set()
    calls = [(name, arguments) for name, _, arguments in EXAMPLE_CALLS]
    examples = (_written_calls(tokenizer, ends), write_calls(family, calls))
    for example in (*filter(None, examples), ""):
        found = compile_response_template(
            template, family, example=example, special=special, ends=ends
        )
        if found in tried:
            continue
        tried.add(found)
        wrong = _known_difference(template, found)
        if wrong is None:
            return found
        difference = difference or wrong
    raise CompositionError(f"transformers reads {difference}", part="response_template")


def written_format(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    """Return the format in which a chat template writes calls.

    Returns:
        The format; ``None`` if the template writes no calls, or in no notation that is known.

    Raises:
        CompositionError: No format has the texts around the arguments.
    """
    special, ends = _special_tokens(tokenizer)
    example = _written_calls(tokenizer, ends)
    template = template_of_example(example)
    if template is None:
        return None
    found = compile_response_template(
        template, PLAIN_FORMAT, example=example, special=special, ends=ends
    )
    tools = [ToolSignature(name, {"type": "object"}) for name, *_ in EXAMPLE_CALLS]
    options = {"additional_properties": "schema"}
    if not RootStateMachine(found.calls(tools, options=options)).matches(example):
        return None
    return replace(found, name="chat_template", models="the model's chat template")


def _special_tokens(tokenizer: TokenizerWrapper) -> tuple[list[str], list[str]]:
    """Return the special tokens, and the special tokens that end an answer."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = [str(token.content) for token in added if token.special]
    names = map(tokenizer.convert_ids_to_tokens, sorted(tokenizer.eos_token_ids))
    return special, [name for name in names if name in special]


def _written_calls(tokenizer: TokenizerWrapper, ends: list[str]) -> str:
    """Return the calls of an example as the chat template writes them; empty if it does not."""
    template = chat_template(tokenizer)
    written = template.written_calls().rpartition(QUESTION)[2]
    answer = template.written_answer().rpartition(QUESTION)[2]
    pairs = zip(written, answer, strict=False)
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    *_, last = EXAMPLE_CALLS[-1][2].values()
    if last not in written:
        return ""
    # What follows an answer, which need not be an end token.
    behind = answer.partition(ANSWER)[2].strip()
    stops = "|".join(map(re.escape, filter(None, (behind, *ends, RESULT))))
    stop = re.compile(stops).search(written, written.rindex(last))
    return written[start : len(written) if stop is None else stop.start()].strip()


def _known_difference(template: Mapping[str, Any], tool_format: ToolFormat) -> str | None:
    """Return the difference of :func:`_difference`, from the cache if it has been found before.

    It depends on the template, on the format (and so on the chat template, whose texts the format
    has), and on the versions of both libraries.
    """
    versions = [metadata.version(name) for name in ("transformers", "proxy-engine")]
    settings = json.dumps([_CHECK, versions, template, repr(tool_format)], sort_keys=True)
    name = hashlib.sha256(settings.encode()).hexdigest()[:32]
    entry: Path | None = None
    # Without a home directory there is no cache.
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        entry = cache_directory() / "response_templates" / name
        known: str | None = json.loads((entry / _VERDICT).read_text(encoding="utf-8"))
        return known
    difference = _difference(template, tool_format)

    def build(partial: Path) -> None:
        (partial / _VERDICT).write_text(json.dumps(difference), encoding="utf-8")

    # A cache that cannot be written is none.
    with contextlib.suppress(OSError):
        if entry is not None:
            build_once(entry, build)
    return difference


def _difference(template: Mapping[str, Any], tool_format: ToolFormat) -> str | None:
    """Return how transformers misreads a random answer; ``None`` if it does not."""
    random = Random(0)
    text, message, calls = "", dict[str, str](), list[tuple[str, Any]]()
    if tool_format.reasoning is not None:
        begin, end = tool_format.reasoning.begin, tool_format.reasoning.end
        name = next(name for name in REASONING_FIELDS if name in template["fields"])
        message[name] = _random_text(random, _ALPHABETS[0])
        text += f"{begin}{message[name]}{end}\n\n"
    if "content" in template["fields"]:
        message["content"] = _random_text(random, _ALPHABETS[0])
        text += f"{tool_format.answer.begin}{message['content']}{tool_format.answer.end}"
    if "tool_calls" in template["fields"]:
        calls, written = _random_calls(random, tool_format)
        text += written
    # Deferred: models without a response template do not need transformers.
    from transformers.utils.chat_parsing import ResponseParser  # noqa: PLC0415

    try:
        parser = ResponseParser(dict(template), prefix="", tools=_DEFINITIONS)
        while text:
            size = random.randint(1, 20)
            parser.feed(text[:size])
            text = text[size:]
        read, _ = parser.finalize()
    except Exception as error:
        # The parser raises whatever its patterns and converters raise.
        return f"the answer with {type(error).__name__}: {error}"
    listed = read.get("tool_calls") or []
    listed = listed if isinstance(listed, list) else [listed]
    found = ({key: read.get(key) for key in message}, [*map(_name_and_arguments, listed)])
    return None if found == (message, calls) else f"{found!r}, not {(message, calls)!r}"


def _random_calls(
    random: Random, tool_format: ToolFormat
) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Return random calls, and their text that the grammar admits.

    Raises:
        CompositionError: The grammar admits none of some calls.
    """
    count = 2 if tool_format.parallel else 1
    machine = RootStateMachine(tool_format.calls(_TOOLS[:count], count, count))
    for alphabet in _ALPHABETS:
        calls = [(tool.name, _random_arguments(random, alphabet)) for tool in _TOOLS[:count]]
        text = write_calls(tool_format, calls)
        if machine.matches(text):
            return calls, text
    raise CompositionError(f"the grammar does not admit {text!r}", part="response_template")


def _random_arguments(random: Random, alphabet: str) -> dict[str, Any]:
    texts = [_random_text(random, alphabet) for _ in range(3)]
    return {"text": texts[0], "count": random.randint(-999, 999), "list": texts[1:]}


def _name_and_arguments(call: Any) -> tuple[Any, Any]:
    function = call.get("function", call) if isinstance(call, dict) else {}
    return function.get("name"), function.get("arguments")


def _random_text(random: Random, alphabet: str) -> str:
    return f"a{''.join(random.choice(alphabet) for _ in range(12))}z"
