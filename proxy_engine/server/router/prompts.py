"""Reads a request's model, the blocks of its prompt, and ids of stored objects for the router."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ..id_prefixes import STORED_ID_PREFIXES
from ..json_bodies import has_too_many_values

_FIRST_BLOCK = 512
"""Size of the first two blocks of a part, in bytes. Each further block is as long as all before."""

_MAX_BLOCKS = 1000
_STORED_ID = re.compile(rf"(?:{'|'.join(STORED_ID_PREFIXES)})([0-9a-f]{{2}})[0-9a-f]{{22}}")
# Where a prompt begins: tools precede the first message, instructions are one.
_LEADING_FIELDS = ("tools", "functions", "chat_template_kwargs", "instructions")
_PROMPT_FIELDS = ("messages", "input", "prompt")
_MODEL_FIELDS = ("model", "adapters", "draft_model")
_GENERATED_TYPES = {"function_call", "custom_tool_call", "reasoning"}


class Block(NamedTuple):
    """A piece of a prompt.

    Attributes:
        key: Hash of the prompt up to the end of the block.
        size: Its length in bytes.
        is_generated: Whether a model has generated it, as an answer of an earlier turn.
    """

    key: bytes
    size: int
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class PromptKeys:
    """The properties of a request by which a worker is chosen.

    Attributes:
        model: The model, adapter and draft model that the request names; ``None`` without names.
        blocks: The prompt.
        worker: The number of the worker that stores the response or conversation that the request
            continues.
    """

    model: str | None = None
    blocks: tuple[Block, ...] = ()
    worker: int | None = None


def read_prompt(body: bytes) -> PromptKeys:
    """Return the keys of a request's body. A body that is no JSON object has none.

    The size of a block is at least half of the part of a message before its end, so a message of
    ``n`` bytes has about ``log2(n)`` blocks. Blocks beyond the first 1000 are left out.
    """
    if not body or has_too_many_values(body):
        return PromptKeys()
    try:
        request = from_json(body)
    except ValueError:
        return PromptKeys()
    if not isinstance(request, dict):
        return PromptKeys()
    names = [request.get(name) or None for name in _MODEL_FIELDS]
    model = to_json(names).decode() if any(names) else None
    return PromptKeys(model, tuple(_blocks(request, (model or "").encode())), _continued(request))


def stored_on(text: str) -> int | None:
    """Return the number of the worker that has made the first id in a text, if it has one."""
    found = _STORED_ID.search(text)
    return None if found is None else int(found[1], 16)


def _continued(request: Mapping[str, Any]) -> int | None:
    conversation = request.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    items = request.get("input") or request.get("items")
    references = [
        item.get("id")
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict) and (item.get("type") == "item_reference" or [*item] == ["id"])
    ]
    ids = [request.get("previous_response_id"), conversation, *references]
    found = (stored_on(id) for id in ids if isinstance(id, str))
    return next((worker for worker in found if worker is not None), None)


def _blocks(request: Mapping[str, Any], key: bytes) -> Iterator[Block]:
    count = 0
    for part in _parts(request):
        is_generated = isinstance(part, dict) and (
            part.get("role") == "assistant" or part.get("type") in _GENERATED_TYPES
        )
        text = to_json(part)
        start, size = 0, _FIRST_BLOCK
        while start < len(text):
            piece = text[start : start + size]
            key = blake2b(piece, key=blake2b(key, digest_size=16).digest(), digest_size=16).digest()
            yield Block(key, len(piece), is_generated)
            count += 1
            if count == _MAX_BLOCKS:
                return
            start += size
            size = start


def _parts(request: Mapping[str, Any]) -> Iterator[Any]:
    for name in _LEADING_FIELDS:
        if request.get(name):
            yield {name: request[name]}
    for name in _PROMPT_FIELDS:
        prompt = request.get(name)
        if isinstance(prompt, list):
            yield from prompt
        elif prompt:
            yield prompt
