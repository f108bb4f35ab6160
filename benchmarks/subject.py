"""A model with all the stacks that run it, and requests that are the same for each of them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from arguments import NamedTokenizer
from documents import Document
from mlx.utils import tree_flatten
from mlx_lm import tokenizer_utils
from mlx_lm.tokenizer_utils import TokenizerWrapper
from random_models import Size, make_random_model
from scripted_model import Script, ScriptedModel, script_of
from stacks import GREEDY, Request, Sampling, Setting, Stack, Written, load_stack
from stacks.ours import OurStack

from proxy_engine.models.embedded import embedded_model
from proxy_engine.models.loading import load_model
from state_machines import Vocabulary

__all__ = ["LeftScriptError", "Subject", "embedded_subject", "random_subject"]

# A stack that cuts a text otherwise may need some more tokens.
_ROOM = 64


class LeftScriptError(Exception):
    """A stack did not write the text that it was to write."""


@dataclass
class Subject:
    """``stacks`` by name share ``model``. ``serial`` counts the prompts: no two begin alike."""

    name: str
    model: ScriptedModel
    tokenizer: TokenizerWrapper
    vocabulary: Vocabulary
    stacks: dict[str, Stack]
    serial: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the model's name and size for the figures."""
        leaves = cast("list[tuple[str, mx.array]]", tree_flatten(self.model.parameters()))
        weights = [leaf for _, leaf in leaves]
        return {
            "model": self.name,
            "parameters": sum(weight.size for weight in weights),
            "weight_bytes": sum(weight.nbytes for weight in weights),
            "vocabulary_size": self.vocabulary.size,
        }

    @property
    def ours(self) -> OurStack:
        """The project's own stack, with the methods that other stacks lack."""
        stack = self.stacks["ours"]
        if not isinstance(stack, OurStack):
            raise TypeError("the stack called ours is another one")
        return stack

    def prompt(self, text: str) -> str:
        """Return a prompt whose beginning no prompt before it had."""
        self.serial += 1
        return f"{self.serial:06d} {text}"

    def request(
        self, prompt: str, schema: Any, max_tokens: int, sampling: Sampling = GREEDY
    ) -> Request:
        """Return a request. ``schema`` is a value; ``None``: any text."""
        ids = list(self.tokenizer.encode(prompt))
        written = None if schema is None else json.dumps(schema)
        return Request(prompt, ids, written, max_tokens, sampling)

    def about(self, document: Document, sampling: Sampling = GREEDY) -> tuple[Request, Script]:
        """Return a request for a document, and the script that gives it."""
        values = re.sub(r'["{}\[\]:,\\\s]+', " ", document.text)
        script = self.script(document.text)
        prompt = self.prompt(f"Write this as JSON:{values}\n")
        return self.request(prompt, document.schema, script.tokens + _ROOM, sampling), script

    def prompted(
        self, task: Document, prompt: str, sampling: Sampling = GREEDY
    ) -> tuple[Request, Script]:
        """Return a request for a document with a prompt of its own, and the script."""
        script = self.script(task.text)
        room = script.tokens + _ROOM
        return self.request(self.prompt(prompt), task.schema, room, sampling), script

    def script(self, text: str) -> Script:
        """Return the script of a text, in the tokens that the tokenizer makes of it."""
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ends = self.vocabulary.end_token_ids & set(self.tokenizer.eos_token_ids)
        return script_of(text.encode(), ids, self.vocabulary.token_bytes, min(ends))

    def can_write(self, document: Document) -> bool:
        """Whether all stacks can."""
        try:
            request, _ = self.about(document)
        except ValueError:
            # No tokens of this vocabulary spell it.
            return False
        ids = self.tokenizer.encode(document.text, add_special_tokens=False)
        return all(stack.can_write(request, ids) for stack in self.stacks.values())

    def write(self, stack: str, request: Request, script: Script | None) -> Written:
        """Have a stack write a text. Raises :class:`LeftScriptError` where it wrote another."""
        self.model.follow(script, request.prompt_ids)
        try:
            written = self.stacks[stack].write(request)
        finally:
            self.model.follow(None)
        if script is not None and written.text != script.text.decode():
            raise LeftScriptError(f"wrote {written.text!r}")
        return written

    def first_token(self, stack: str, request: Request, script: Script) -> float:
        """Seconds until a stack has the first token of a text."""
        self.model.follow(script, request.prompt_ids)
        try:
            return self.stacks[stack].first_token(request)
        finally:
            self.model.follow(None)

    def forget(self) -> None:
        """Have all stacks start anew, and meet one schema, as a server has before long."""
        for name, stack in self.stacks.items():
            stack.forget()
            script = self.script('{"a": "b"}')
            self.write(name, self.request(self.prompt("Begin."), _FIRST, 64), script)

    def close(self) -> None:
        """Close all stacks."""
        for stack in self.stacks.values():
            stack.close()


_FIRST = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def embedded_subject(stacks: Sequence[str]) -> Subject:
    """Return the embedded model, with these stacks. Raises ``ModelError`` without it."""
    loaded = load_model(None)
    return _subject(loaded.name, loaded.model, loaded.tokenizer, stacks)


def random_subject(size: Size, tokenizer: NamedTokenizer | None, stacks: Sequence[str]) -> Subject:
    """Return a model of random weights. Without a ``tokenizer`` it has the embedded model's."""
    wrapper = tokenizer_utils.load(embedded_model()) if tokenizer is None else _wrapper(tokenizer)
    width = Vocabulary.from_tokenizer(wrapper).size
    # To whole blocks, as real models are padded.
    model = make_random_model(size, -(-width // 64) * 64)
    return _subject(str(size), model, wrapper, stacks)


def _subject(name: str, model: Any, tokenizer: TokenizerWrapper, stacks: Sequence[str]) -> Subject:
    # All stacks are to read the same tokens, whatever they know of templates.
    tokenizer._tokenizer.chat_template = None
    tokenizer.has_chat_template = False
    width = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=width)
    if vocabulary.strips_first_space:
        raise SystemExit(f"the tokenizer of {name} adds a first space and cannot spell JSON here")
    special = set(vocabulary.special_tokens.values())
    lengths = [
        0 if form is None or token_id in special else len(form)
        for token_id, form in enumerate(vocabulary.token_bytes)
    ]
    scripted = ScriptedModel(model, lengths)
    setting = Setting(scripted, tokenizer)
    return Subject(
        name, scripted, tokenizer, vocabulary, {name: load_stack(name, setting) for name in stacks}
    )


def _wrapper(named: NamedTokenizer) -> TokenizerWrapper:
    """Load a ``tokenizer.json`` as mlx-lm does, with the end tokens that it seems to have."""
    _, vocabulary = named.load()
    ends = sorted(vocabulary.end_token_ids)
    names = {token_id: name for name, token_id in vocabulary.special_tokens.items()}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": names[ends[0]]}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tokenizer.json").write_bytes(named.path.read_bytes())
        Path(folder, "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        wrapper: TokenizerWrapper = tokenizer_utils.load(Path(folder), eos_token_ids=ends)
    return wrapper
