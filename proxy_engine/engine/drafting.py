"""The draft model of an engine. Imported by engines that have one."""

from __future__ import annotations

from functools import partial
from typing import Any

from mlx.nn.layers.base import Module

from state_machines import Vocabulary

from ..errors import InvalidOptionError
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
from ..models.draft_models import load_draft_model
from ..models.loading import LoadedModel, share_model
from ..prompt_cache.options import CacheOptions
from ..prompt_cache.prompt_caches import PromptCaches
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
