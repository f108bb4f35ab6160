"""Loading draft models. A draft model has the tokenizer of the model that it drafts for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from mlx.nn.layers.base import Module

from state_machines import Vocabulary
from state_machines.errors import VocabularyError

from ..errors import DraftModelError
from ..runtime.process_runtime import OnProgress
from .draft_heads import is_draft_head
from .files import FileProblem
from .loading import LoadedModel, check_loadable, load_model
from .tokenizer import vocabulary_of


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
