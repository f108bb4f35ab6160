"""Checks whether models can be loaded, before the current model leaves memory."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from dataclasses import replace
from functools import partial

from state_machines.errors import ProxyError

from ..errors import DraftModelError, ModelError
from ..models.draft_models import check_draft_loadable
from ..models.load_options import LoadOptions
from ..models.loading import check_loadable
from ..prompt_cache.options import CacheOptions
from ..requests.worker import Worker
from .errors import ApiError, api_error
from .known_models import KnownModel, file_signature

# An absolute path, to the end of its line, since a path may contain spaces. URLs are none.
_PATH = re.compile(r"(?<![\w.])(?<!:/)/[^/\s].*")

_logger = logging.getLogger(__name__)


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
        self._results: dict[tuple[str, ...], tuple[object, ApiError | None]] = {}
        self._turn = asyncio.Lock()

    async def check_files(self, model: KnownModel) -> None:
        """Load a model without its weights, in about a second.

        Raises:
            ApiError: The model or its draft model cannot be loaded, the draft model has another
                vocabulary, or the adapter belongs to another model.
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

    def _problem(self, model: KnownModel) -> ApiError | None:
        """Return the error of loading a model's files, if any. Takes about a second."""
        # On a worker: MLX may abort the process if a thread that has used it ends at process exit.
        worker = Worker()
        try:
            worker.submit(partial(self._check, model)).result()
        except ModelError as error:
            fields = {"model": model.name, "error": str(error)}
            _logger.warning("model cannot be loaded", extra={"fields": fields})
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
        is_bounded = cache.kv_bits is not None or cache.max_kv_size is not None
        checked_cache = cache if is_bounded and not model.transcribes else None
        loaded = check_loadable(directory, model.name, options, checked_cache)
        if draft is not None and draft.directory is not None:
            check_draft_loadable(draft.directory, draft.name, loaded)


def check_description(model: KnownModel) -> None:
    """Raise for a model whose description states a problem.

    Raises:
        ApiError: The model or its draft model cannot be loaded.
    """
    for one in model.files:
        if one.problem is not None:
            raise for_client(one.problem.error(one.name), model)


def for_client(error: Exception, model: KnownModel) -> ApiError:
    """Return the error of loading ``model`` as a client gets it, without paths of the server.

    An error of the draft model names the parameter ``draft_model``.
    """
    if isinstance(error, ModelError):
        of_draft = model.draft is not None and error.model in (model.draft_source, model.draft.name)
        of_model = error.model in (model.source, model.name)
        is_draft = isinstance(error, DraftModelError) or (of_draft and not of_model)
        found = api_error(error, {"model": "draft_model"} if is_draft else None)
    else:
        # The text of an unexpected exception is for the log.
        reason = f": {error}" if isinstance(error, ProxyError) else ""
        what = f"{model.name!r} cannot be loaded{reason}"
        found = ApiError(503, what, code="model_unavailable", param="model")
    found.message = _without_paths(found.message, model)
    return found


def _without_paths(text: str, model: KnownModel) -> str:
    """Replace the directories of a model by its name, and cut lines at other absolute paths.

    The errors of libraries name files, and their names tell clients about the server's users.
    """
    known = [(one.directory, one.name) for one in model.files if one.directory is not None]
    if model.adapter is not None:
        known.append((model.adapter.directory, model.adapter.name))
    names = {str(path): name for one, name in known for path in (one, one.resolve())}
    # A directory may begin with the path of another one.
    for path in sorted(names, key=len, reverse=True):
        if os.sep in path:
            text = text.replace(path, names[path])
    return _PATH.sub("…", text)


def _signature(model: KnownModel) -> object:
    """Return a value that changes with the files of a model, its draft model or its adapter."""
    directories = [one.directory for one in model.files]
    if model.adapter is not None:
        directories.append(model.adapter.directory)
    return [directory and file_signature(directory) for directory in directories]
