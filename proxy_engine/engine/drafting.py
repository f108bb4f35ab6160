"""The draft model of an engine: its checks, loading, and drafter.

Imported by engines that have one. A draft model has the tokenizer of the model that it drafts for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mlx.nn.layers.base import Module

from state_machines import Vocabulary
from state_machines.errors import VocabularyError

from ..errors import DraftModelError, InvalidOptionError
from ..generation import ForwardPass, ModelDrafter
from ..generation.speculation.draft_model import DraftModel
from ..generation.speculation.head_drafter import HeadDrafter
from ..models.draft_heads import (
    LoadedHead,
    check_own_heads,
    is_draft_head,
    is_own,
    load_draft_head,
    misfit,
)
from ..models.files import FileProblem
from ..models.loading import LoadedModel, check_loadable, load_model, share_model
from ..models.tokenizer import vocabulary_of
from ..prompt_cache import CacheOptions
from ..prompt_cache.prompt_caches import PromptCaches
from ..runtime.process_runtime import OnProgress
from ..runtime.worker import Worker
from .arguments import EngineOptions, ModelSource

_DRAFT_CACHE_SHARE = 4
"""The prompt caches of the draft model take at most this fraction of ``max_bytes`` in addition."""


def check_source(draft_model: Any, model: ModelSource | None) -> None:
    """Check that a model has the draft heads that are named as its own.

    Args:
        draft_model: The argument ``draft_model`` of an engine.
        model: Its argument ``model``.

    Raises:
        DraftModelError: The model has no heads.
        MissingExtraError: mlx-vlm is not installed.
    """
    if is_own(draft_model):
        check_own_heads(model)


def load_draft(
    worker: Worker,
    target: LoadedModel,
    vocabulary: Vocabulary,
    options: EngineOptions,
    *,
    is_distributed: bool,
) -> LoadedModel | LoadedHead:
    """Load the draft model, or the head, of an engine's options, on the model thread.

    Args:
        worker: Owns the model thread.
        target: The model that verifies the drafts.
        vocabulary: Its vocabulary.
        options: The options of the engine.
        is_distributed: Whether ranks share the target.

    Raises:
        InvalidOptionError: The draft does not apply to the model.
        ModelError: It cannot be loaded, or has another vocabulary.
    """
    source = options.draft_model
    if isinstance(source, Module):
        share_model(source, worker.at_close)
    if is_draft_head(source):
        if is_distributed:
            raise InvalidOptionError(
                "a draft head reads hidden states, which ranks do not share",
                option="draft_model",
                hint="Use a draft model, or leave distributed out.",
            )
        return worker.submit(partial(load_draft_head, source, target)).result()
    load = partial(
        load_draft_model,
        source,
        target,
        vocabulary,
        options.on_progress,
        cache_vocabulary=options.cache_vocabulary,
    )
    return worker.submit(load).result()


def make_drafter(
    draft: LoadedModel | LoadedHead, target: LoadedModel, options: CacheOptions | None
) -> ModelDrafter:
    """Return the drafter of a draft model. To be called on the model thread.

    Args:
        draft: The draft model, or the head.
        target: The model that verifies the drafts.
        options: The options of the target's prompt caches.

    Raises:
        DraftModelError: The head does not fit the model.
    """
    options = options or CacheOptions()
    caches = PromptCaches(
        draft.model,
        CacheOptions(
            max_bytes=options.max_bytes // _DRAFT_CACHE_SHARE,
            max_checkpoints=options.max_checkpoints,
        ),
    )
    if isinstance(draft, LoadedHead):
        drafter = HeadDrafter(draft.model, caches, width=target.logits_width)
        try:
            drafter.check(ForwardPass(target.model, drafter.state_layers))
        except Exception as error:
            raise misfit(draft.name, target.name, str(error).rstrip(".")) from error
        return drafter
    return DraftModel(
        draft.model, caches, width=target.logits_width, context_length=draft.context_length
    )


def load_draft_model(
    draft_model: str | os.PathLike[str] | Module,
    target: LoadedModel,
    vocabulary: Vocabulary,
    on_progress: OnProgress | None = None,
    *,
    cache_vocabulary: bool = True,
) -> LoadedModel:
    """Load a draft model. To be called on the thread that will run it.

    The ``LoadOptions`` of the target do not apply to it.

    Args:
        draft_model: Directory, Hugging Face repo id, or a model in memory with evaluated weights,
            which shares the target's tokenizer.
        target: The model that verifies the drafts.
        vocabulary: The target's vocabulary.
        on_progress: Called with a line for each step of a download or conversion.
        cache_vocabulary: As in ``vocabulary_of``.

    Raises:
        DraftModelError: The draft model has another vocabulary.
        ModelError: There is no such model, or it cannot be loaded.
        VocabularyError: Its tokenizer cannot be read.
    """
    if isinstance(draft_model, Module):
        name = type(draft_model).__module__
        loaded = LoadedModel.of(draft_model, target.tokenizer, name=name)
        forms = vocabulary.token_bytes[: loaded.logits_width]
    else:
        loaded = load_model(draft_model, on_progress)
        forms = vocabulary_of(loaded, cached=cache_vocabulary).token_bytes
    check_same_tokens(
        forms, vocabulary.token_bytes, draft_model=loaded.name, target_model=target.name
    )
    return loaded


def check_draft_loadable(directory: Path, name: str, target: LoadedModel) -> None:
    """Check that a draft model can be loaded, without reading its weights.

    Args:
        directory: The draft model's files.
        name: Its name.
        target: The model that it drafts for, as ``check_loadable`` returns it.

    Raises:
        DraftModelError: The draft model has another vocabulary.
        ModelFormatError: One of the models cannot be loaded.
    """
    if is_draft_head(directory):
        # Whether it fits is known once both are loaded.
        return
    draft = check_loadable(directory, name)
    forms = []
    for model in (draft, target):
        try:
            forms.append(vocabulary_of(model).token_bytes)
        except VocabularyError as error:
            raise FileProblem(str(error)).error(model.name) from error
    check_same_tokens(*forms, draft_model=name, target_model=target.name)


def check_same_tokens(
    draft: Sequence[bytes | None],
    target: Sequence[bytes | None],
    *,
    draft_model: str,
    target_model: str,
) -> None:
    """Check that every token id has the same bytes in two vocabularies.

    Logits may be padded to different widths, as in models of different sizes of one family. End
    tokens may differ, as in a base model and its instruction-tuned version: where an answer ends is
    decided by the target's end tokens alone.

    Args:
        draft: Bytes of each token of the draft model; ``None`` for unused ids.
        target: The same of the target.
        draft_model: Name of the draft model.
        target_model: Name of the target.

    Raises:
        DraftModelError: A token id differs.
    """
    for token_id, (form, expected) in enumerate(zip_longest(draft, target)):
        if form != expected:
            raise DraftModelError(
                f"the draft model {draft_model!r} has another vocabulary than {target_model!r}: "
                f"token {token_id} is {_shown(form)} instead of {_shown(expected)}",
                model=draft_model,
                target=target_model,
                token_id=token_id,
                hint="Use a smaller model of the same family, with the same tokenizer.",
            )


def _shown(form: bytes | None) -> str:
    if form is None:
        return "unused"
    if form.startswith(Vocabulary.SPECIAL_MARK):
        return f"the special token {form.removeprefix(Vocabulary.SPECIAL_MARK).decode()!r}"
    return repr(form)
