"""A model's tokenizer: its vocabulary, another chat template, and reading it without transformers.

transformers changes what the files of a tokenizer state, by rules for each class and model. So a
tokenizer is loaded with transformers once (:mod:`.text_loading`), and read from its backend and its
facts afterwards. The methods of :class:`CachedTokenizer` are those of plain texts. Everything else,
such as a template with tools, is passed on to mlx-lm's wrapper, which is then loaded.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from state_machines import Vocabulary, VocabularyCache
from state_machines.compiled_library import cache_directory

from .loading import LoadedModel

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

# Files that transformers may read a tokenizer from.
_PATTERNS = ("*token*.json", "*token*.py", "*.model", "*.tiktoken", "vocab.*", "merges.txt")

_FROM_TEMPLATE = ("chat_template", "chat_template_type", "tool_parser_type")
"""Entries of a tokenizer's configuration that name its template, or derive from it."""


def vocabulary_of(loaded: LoadedModel, *, cached: bool = True) -> Vocabulary:
    """Return the vocabulary of a model's tokenizer, as wide as the model's logits.

    Args:
        loaded: The model.
        cached: Read it from ``vocabularies`` in the cache directory, or write it there.

    Raises:
        VocabularyError: The tokenizer is not supported.
    """
    tokenizer, size = loaded.tokenizer, loaded.logits_width
    try:
        caches = cache_directory() / "vocabularies" if cached else None
    except RuntimeError:  # The user has no home directory.
        caches = None
    if caches is None:
        return Vocabulary.from_tokenizer(tokenizer, size=size)
    files = () if loaded.directory is None else tokenizer_files(loaded.directory)
    return VocabularyCache(caches).from_tokenizer(tokenizer, files=files, size=size)


def tokenizer_files(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the tokenizer's files in a model's directory, sorted by name.

    Empty without a ``tokenizer.json``: files in other formats do not identify a tokenizer.
    """
    folder = Path(directory)
    if not (folder / "tokenizer.json").is_file():
        return []
    return sorted(
        {file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()}
    )


def with_chat_template(tokenizer: TokenizerWrapper, template: str) -> TokenizerWrapper:
    """Return a copy of a tokenizer with another chat template.

    mlx-lm's parser of tool calls follows from the new template, as after loading.
    """
    # Deferred: it imports transformers, as the tokenizer did.
    from mlx_lm import tokenizer_utils  # noqa: PLC0415

    inner: Any = copy.copy(tokenizer._tokenizer)
    inner.chat_template = template
    settings = getattr(inner, "init_kwargs", {})
    inner.init_kwargs = {key: settings[key] for key in settings if key not in _FROM_TEMPLATE}
    arguments = {}
    parser = tokenizer_utils._infer_tool_parser(inner)
    if parser is not None:
        module = importlib.import_module(f"mlx_lm.tool_parsers.{parser}")
        arguments = {
            "tool_parser": module.parse_tool_call,
            "tool_call_start": module.tool_call_start,
            "tool_call_end": module.tool_call_end,
        }
    return tokenizer_utils.TokenizerWrapper(
        inner, eos_token_ids=tokenizer.eos_token_ids, **arguments
    )


_SETTINGS = ("chat_template_type", "tool_parser_type", "response_schema")
"""Entries of ``tokenizer_config.json`` that show a tool format."""

_METHODS = ("encode", "_encode_plus", "convert_tokens_to_ids", "apply_chat_template")
_NOT_OF_TEMPLATES = {"chat_template", "continue_final_message", "return_dict", "tokenizer_kwargs"}
"""Arguments of transformers that are no variables of templates."""

_CALL = {"id": "abcdefgh9", "type": "function"}
_TOOL = {"name": "weather", "description": "Reads.", "parameters": {"type": "object"}}
_MESSAGES: Sequence[dict[str, Any]] = (
    {"role": "system", "content": " be brief \n"},
    {"role": "user", "content": "weather <b>&"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{**_CALL, "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
    },
    {"role": "tool", "content": "sun", "tool_call_id": "abcdefgh9", "name": "weather"},
    {"role": "assistant", "content": "It is sunny."},
    {"role": "user", "content": "Thanks"},
)
_PROBES = (_MESSAGES[1:2], _MESSAGES[:2], _MESSAGES, _MESSAGES[1:], _MESSAGES[4:])
_KEYWORDS: Sequence[dict[str, Any]] = (
    {},
    {"add_generation_prompt": True},
    {"enable_thinking": False},
    {"tools": [{"type": "function", "function": _TOOL}], "add_generation_prompt": True},
)
_REASONING = ("reasoning_content", "thinking", "reasoning")
_TEXTS = ("Hello, wörld! 你好 \U0001f600", "  two  spaces\n\tand\r\nlines ", "a1 22 333 <b> don't")


class CachedTokenizer:
    """The part of mlx-lm's ``TokenizerWrapper`` that requests of plain texts use.

    Args:
        backend: The tokenizer.
        facts: The attributes of the wrapper that are stored.
        load: Loads the wrapper.
    """

    def __init__(
        self, backend: Tokenizer, facts: Mapping[str, Any], load: Callable[[], TokenizerWrapper]
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend_tokenizer = backend
        self._facts = facts
        self._load = load
        self._lock = threading.Lock()
        self._chat_template = None
        self.eos_token_ids = set(facts["eos_token_ids"])

    @property
    def _tokenizer(self) -> CachedTokenizer:
        return self

    @cached_property
    def wrapper(self) -> TokenizerWrapper:
        """The tokenizer as mlx-lm loads it."""
        with self._lock:
            return self._load()

    @cached_property
    def tool_parser(self) -> Any:
        """mlx-lm's parser of tool calls, if there is one."""
        name = self._facts["tool_parser"]
        return None if name is None else importlib.import_module(name).parse_tool_call

    @cached_property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The added tokens by id."""
        return dict(self.backend_tokenizer.get_added_tokens_decoder())

    def get_added_vocab(self) -> dict[str, int]:
        """Return the ids of the added tokens."""
        return {token.content: number for number, token in self.added_tokens_decoder.items()}

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of all tokens."""
        return dict(self.backend_tokenizer.get_vocab(with_added_tokens=True))

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token; the id of the unknown token if the token is missing."""
        found = self.backend_tokenizer.token_to_id(token)
        unknown = self._facts["special_tokens_map"].get("unk_token")
        if found is None and unknown is not None:
            return self.backend_tokenizer.token_to_id(unknown)
        return found

    def convert_ids_to_tokens(self, token_id: int) -> str | None:
        """Return the name of a token."""
        return self.backend_tokenizer.id_to_token(token_id)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text."""
        return list(self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool = True, **keywords: Any
    ) -> Any:
        """Return the rendered conversation, or its token ids, as mlx-lm's wrapper does."""
        template = self._template
        if template is None or not messages or not _is_json([*messages, keywords]):
            return self.wrapper.apply_chat_template(messages, tokenize=tokenize, **keywords)
        if any(keywords.get(name) for name in _NOT_OF_TEMPLATES):
            return self.wrapper.apply_chat_template(messages, tokenize=tokenize, **keywords)
        variables = {
            "tools": None,
            "documents": None,
            "add_generation_prompt": False,
            "enable_thinking": self._facts["has_thinking"],
            **self._facts["special_tokens_map"],
            **{key: value for key, value in keywords.items() if key not in _NOT_OF_TEMPLATES},
        }
        text = template.render(messages=list(map(_normalized, messages)), **variables)
        return self.encode(text, add_special_tokens=False) if tokenize else text

    @cached_property
    def _template(self) -> jinja2.Template | None:
        """The template, if it has no tags and functions of transformers."""
        source = self._facts["chat_template"]
        if source is None:
            return None
        # The environment of transformers' templates.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {
            "raise_exception": _raise,
            "strftime_now": lambda form: datetime.now().strftime(form),
            "namespace": _Namespace,
        }
        try:
            names = jinja2.meta.find_undeclared_variables(environment.parse(source))
            # transformers replaces it, too.
            return None if "dict" in names else environment.from_string(source)
        except jinja2.TemplateSyntaxError:
            return None

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def __getattr__(self, name: str) -> Any:
        # Reached for names that are not defined here.
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._facts:
            return self._facts[name]
        return getattr(self.wrapper, name)


def tokenizer_facts(wrapper: TokenizerWrapper) -> dict[str, Any] | None:
    """Return the facts of a tokenizer; ``None`` if its class defines further methods.

    Args:
        wrapper: The tokenizer as mlx-lm loads it.
    """
    inner: Any = wrapper._tokenizer
    own = {
        name
        for name in _METHODS
        for kind in type(inner).__mro__
        if name in vars(kind)
        and not kind.__module__.startswith(("transformers.tokenization_utils", "builtins"))
    }
    template = inner.chat_template
    if (
        own
        or wrapper._chat_template is not None
        or not isinstance(template, str | None)
        or getattr(inner, "backend_tokenizer", None) is None
        or getattr(inner, "split_special_tokens", False)
    ):
        return None
    parser = wrapper.tool_parser
    return {
        "all_special_ids": list(inner.all_special_ids),
        "chat_template": template,
        "eos_token_id": inner.eos_token_id,
        "eos_token_ids": sorted(wrapper.eos_token_ids),
        "has_chat_template": wrapper.has_chat_template,
        "has_thinking": wrapper.has_thinking,
        "init_kwargs": {
            name: inner.init_kwargs[name] for name in _SETTINGS if name in inner.init_kwargs
        },
        "name_or_path": str(inner.name_or_path),
        "response_template": getattr(inner, "response_template", None),
        "special_tokens_map": {
            name: str(token) for name, token in inner.special_tokens_map.items()
        },
        "split_special_tokens": False,
        "think_end": wrapper.think_end,
        "think_start": wrapper.think_start,
        "tool_call_end": wrapper.tool_call_end,
        "tool_call_start": wrapper.tool_call_start,
        "tool_parser": None if parser is None else parser.__module__,
        "vocab_size": inner.vocab_size,
    }


def is_equal(tokenizer: CachedTokenizer, wrapper: TokenizerWrapper) -> bool:
    """Whether a cached tokenizer writes the ids and prompts of probes as mlx-lm's wrapper does."""
    texts = [*_TEXTS, *tokenizer.get_added_vocab()]
    for special in (False, True):
        expected = [list(wrapper.encode(text, add_special_tokens=special)) for text in texts]
        if [tokenizer.encode(text, add_special_tokens=special) for text in texts] != expected:
            return False
    if tokenizer.get_vocab() != wrapper.get_vocab():
        return False
    if tokenizer._template is None:
        return True
    return all(
        _rendered(tokenizer, probe, keywords) == _rendered(wrapper, probe, keywords)
        for probe in _PROBES
        for keywords in _KEYWORDS
    )


def _rendered(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], keywords: Mapping[str, Any]
) -> Any:
    """Return a rendered conversation; ``None`` if the template raises."""
    try:
        return tokenizer.apply_chat_template(list(messages), tokenize=False, **keywords)
    except Exception:
        # Templates may raise anything.
        return None


def _normalized(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as transformers gives it to templates.

    Entries that are ``None`` are left out, and reasoning has the names that templates read.
    """
    given = {key: value for key, value in message.items() if value is not None}
    reasoning = next((given[key] for key in _REASONING if key in given), None)
    if reasoning is None:
        return given
    return {"thinking": reasoning, **given, "reasoning_content": reasoning}


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return value is None or type(value) in (str, int, float, bool)


class _Namespace(jinja2.utils.Namespace):
    """A namespace of chat templates, which stores no private names."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        for name in dict(*arguments, **attributes):
            _check_public(name)
        super().__init__(*arguments, **attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_public(name)
        super().__setitem__(name, value)


def _check_public(name: str) -> None:
    if name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a chat template stores the private name {name!r}")


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter of chat templates, which does not escape HTML as jinja2's own does."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
