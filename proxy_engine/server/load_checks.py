"""Checks whether models can be loaded, before the current model leaves memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from ..errors import DraftModelError, ModelError
from ..models.checking import check_cache, check_loadable
from ..models.draft_models import check_draft_loadable
from ..models.load_options import LoadOptions
from ..prompt_cache.options import CacheOptions
from ..requests.worker import Worker
from .errors import ApiError, api_error
from .known_models import KnownModel, file_signature


class LoadChecks:
    """Checks models, and remembers the results until a file changes. For one event loop.

    Args:
        cache: The options of the prompt caches of models; ``None`` for the defaults.
        trusts_code: Whether code of checkpoints may be run.
    """

    def __init__(self, cache: CacheOptions | None = None, *, trusts_code: bool = False) -> None:
        self._cache = cache or CacheOptions()
        self._trusts_code = trusts_code
        # By ``KnownModel.key``: the signature of their files, and the error of loading.
        self._results: dict[tuple[str, ...], tuple[object, ModelError | ApiError | None]] = {}
        self._turn = asyncio.Lock()

    async def check_files(self, model: KnownModel) -> None:
        """Load a model without its weights, in about a second.

        Raises:
            ModelError: The model cannot be loaded.
            ApiError: Its draft model cannot be loaded or has another vocabulary, or its adapter
                belongs to another model.
        """
        if model.directory is None:
            return
        # One check at a time: each takes a second of processor time.
        async with self._turn:
            signature = await asyncio.to_thread(_signature, model)
            known = self._results.get(model.key)
            if known is None or known[0] != signature:
                problem = await asyncio.to_thread(self._problem, model)
                known = self._results[model.key] = (signature, problem)
        if known[1] is not None:
            raise known[1].with_traceback(None)

    def record_loaded(self, model: KnownModel) -> None:
        """Remember that a model was loaded, so that it is not checked again."""
        self._results[model.key] = (_signature(model), None)

    def has_failed(self, model: KnownModel) -> bool:
        """Whether ``check_files`` found that a model without a draft model cannot be loaded."""
        known = self._results.get(replace(model, draft=None).key)
        return known is not None and known[1] is not None and known[0] == _signature(model)

    def _problem(self, model: KnownModel) -> ModelError | ApiError | None:
        """Return the error of loading a model's files, if any. Takes about a second."""
        # On a worker: MLX may abort the process if a thread that has used it ends at process exit.
        worker = Worker()
        try:
            worker.submit(partial(self._check, model)).result()
        except ModelError as error:
            return for_client(error, model)
        finally:
            worker.close()
        return None

    def _check(self, model: KnownModel) -> None:
        directory, draft, cache = model.directory, model.draft, self._cache
        if directory is None:
            return
        options = LoadOptions(
            adapter_path=None if model.adapter is None else model.adapter.directory,
            trust_remote_code=self._trusts_code,
        )
        if draft is None or draft.directory is None:
            check_loadable(directory, model.name, options)
        else:
            check_draft_loadable(draft.directory, draft.name, directory, model.name, options)
        is_bounded = cache.kv_bits is not None or cache.max_kv_size is not None
        if is_bounded and not model.transcribes:
            check_cache(directory, model.name, cache, options)


def check_description(model: KnownModel) -> None:
    """Raise for a model whose description states a problem.

    Raises:
        ModelError: The model cannot be loaded.
        ApiError: Its draft model cannot be loaded.
    """
    for one in model.files:
        if one.problem is not None:
            raise for_client(one.problem.error(one.name), model)


def for_client(error: ModelError, model: KnownModel) -> ModelError | ApiError:
    """Return the error of loading ``model``; one of its draft model names ``draft_model``."""
    of_draft = model.draft is not None and error.model in (model.draft_source, model.draft.name)
    of_model = error.model in (model.source, model.name)
    if isinstance(error, DraftModelError) or (of_draft and not of_model):
        return api_error(error, {"model": "draft_model"})
    return error


def _signature(model: KnownModel) -> object:
    """Return a value that changes with the files of a model, its draft model or its adapter."""
    directories = [one.directory for one in model.files]
    if model.adapter is not None:
        directories.append(model.adapter.directory)
    return [directory and file_signature(directory) for directory in directories]
