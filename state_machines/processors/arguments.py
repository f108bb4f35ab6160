"""The arguments of logits processors: an output as a machine, a tokenizer as a vocabulary."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from state_machines.caches import LruCache
from state_machines.errors import InvalidArgumentError
from state_machines.json_schema import JsonSchemaStateMachine
from state_machines.machine import StateMachine
from state_machines.type_readers import uses_msgspec
from state_machines.vocabulary import Vocabulary

EndTokens: TypeAlias = int | Iterable[int] | None
"""Ids of end tokens, as configurations of models have them: one, several or unknown."""

_Key: TypeAlias = tuple[frozenset[int] | None, object]

_vocabularies: WeakKeyDictionary[object, dict[_Key, Vocabulary]] = WeakKeyDictionary()
_lock = threading.Lock()

_FIRST_BUFFER = 256

_MAX_MACHINES = 64

_machines: LruCache[str, StateMachine] = LruCache(_MAX_MACHINES)


def machine_of(output: object) -> StateMachine:
    """Return the state machine of an output.

    A JSON Schema is compiled with the whitespace that ``json.dumps`` writes, and its objects have
    the properties that it lists, unless it says more about others. The last 64 machines of schemas
    are cached, with the masks that their states have stored.

    Args:
        output: A state machine, a JSON Schema (a mapping or a bool), a pydantic model, a
            ``pydantic.TypeAdapter``, or a type with a ``Struct`` of msgspec or a class of attrs.

    Raises:
        InvalidArgumentError: It is none of these.
        SchemaError: The schema is invalid, unsatisfiable, or would not be enforced.
    """
    if isinstance(output, StateMachine):
        return output
    schema = output if isinstance(output, Mapping | bool) else _schema_of(output)
    try:
        # Not sorted: properties are written in the schema's order.
        key = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the schema is not JSON: {error}", argument="output") from error
    machine = _machines.get(key)
    if machine is None:
        # A copy, since the caller may change the mapping.
        machine = JsonSchemaStateMachine(
            json.loads(key), whitespace="spaced", additional_properties="closed"
        )
        _machines.put(key, machine)
    return machine


def _schema_of(output: Any) -> Any:
    if uses_msgspec(output):
        from state_machines.type_readers.msgspec_reader import msgspec_schema  # noqa: PLC0415

        return msgspec_schema(output).schema
    for method in ("model_json_schema", "json_schema"):
        if callable(getattr(output, method, None)):
            from pydantic import TypeAdapter  # noqa: PLC0415

            from state_machines.type_readers.pydantic_reader import pydantic_schema  # noqa: PLC0415

            adapter = output if isinstance(output, TypeAdapter) else TypeAdapter(output)
            return pydantic_schema(adapter).schema
    raise InvalidArgumentError(
        f"a {type(output).__name__} is no output",
        argument="output",
        hint="Give a state machine, a JSON Schema, a pydantic model, a pydantic.TypeAdapter or a "
        "msgspec Struct",
    )


def vocabulary_of(tokenizer: object, end_token_ids: EndTokens = None) -> Vocabulary:
    """Return the vocabulary of a tokenizer, from a weak cache if it was read before.

    Args:
        tokenizer: A vocabulary, which is returned, a tokenizer, or a ``llama_cpp.Llama``.
        end_token_ids: Replaces the tokenizer's end tokens.

    Raises:
        InvalidArgumentError: End tokens are given with a vocabulary, which has its own.
        VocabularyError: The tokenizer is not supported.
    """
    ends = frozenset([end_token_ids] if isinstance(end_token_ids, int) else end_token_ids or ())
    if isinstance(tokenizer, Vocabulary):
        if ends and ends != tokenizer.end_token_ids:
            raise InvalidArgumentError(
                "a vocabulary has end tokens of its own",
                argument="end_token_ids",
                hint="Build the vocabulary with these end tokens",
            )
        return tokenizer
    is_llama = type(tokenizer).__module__.partition(".")[0] == "llama_cpp"
    read = read_llama if is_llama else Vocabulary.from_tokenizer
    key = (ends or None, "llama" if is_llama else _state(tokenizer))
    try:
        with _lock:
            known = _vocabularies.setdefault(tokenizer, {})
    except TypeError:  # Objects of the tokenizers library have no weak references.
        known = {}
    if key not in known:
        known[key] = read(tokenizer, end_token_ids=ends or None)
    return known[key]


def _state(tokenizer: object) -> object:
    """Return what changes if tokens are added, or end tokens replaced."""
    count = len(tokenizer) if hasattr(tokenizer, "__len__") else 0
    several = getattr(tokenizer, "eos_token_ids", None)
    ends = frozenset(several) if isinstance(several, Iterable) else several
    return count, ends, getattr(tokenizer, "eos_token_id", None)


def read_llama(llama: Any, end_token_ids: Iterable[int] | None = None) -> Vocabulary:
    """Return the vocabulary of a ``llama_cpp.Llama``.

    User-defined tokens are ordinary text. Control tokens and the unknown token are special.

    Args:
        llama: The model.
        end_token_ids: Replaces the tokens at which llama.cpp ends a generation.

    Raises:
        VocabularyError: The model has no end token.
    """
    import llama_cpp  # noqa: PLC0415

    is_special = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    forms: list[bytes | None] = []
    special: dict[str, int] = {}
    ends: list[int] = []
    for token_id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        piece = _piece(llama_cpp, vocab, token_id)
        attributes = llama_cpp.llama_vocab_get_attr(vocab, token_id)
        is_unused = attributes & llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
        forms.append(None if is_unused or not piece else piece)
        if piece and attributes & is_special:
            special[piece.decode(errors="backslashreplace")] = token_id
        if piece and llama_cpp.llama_vocab_is_eog(vocab, token_id):
            ends.append(token_id)
    return Vocabulary(
        forms,
        end_token_ids=ends if end_token_ids is None else end_token_ids,
        special_tokens=special,
    )


def _piece(llama_cpp: Any, vocab: Any, token_id: int) -> bytes:
    """Return the bytes of a token, and the name of a special one."""
    size = _FIRST_BUFFER
    while True:
        buffer = ctypes.create_string_buffer(size)
        # A negative result is the size that is needed.
        written = int(llama_cpp.llama_token_to_piece(vocab, token_id, buffer, size, 0, True))
        if written >= 0:
            return buffer.raw[:written]
        size = -written
