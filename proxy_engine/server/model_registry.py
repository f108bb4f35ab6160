"""The models on this computer, by name.

Clients can request only these: a client can neither name a path nor cause a download.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from huggingface_hub.constants import HF_HUB_CACHE

from ..models.embedded import EMBEDDED_MODEL, embedded_model, is_embedded_model_ready
from .adapters import KnownAdapter
from .known_models import KnownModel, KnownModels

DEFAULT_MODEL = "default_model"
"""mlx-lm's name for the model, and for the draft model, that the server was started with."""

ANY_NAME = "*"
"""The alias that makes every unknown name a name of the default model."""

_MAX_NAME_CHARACTERS = 1000
"""The length of names that are not those of models. Every chunk of an answer repeats the name."""


class ModelRegistry:
    """Finds models: the default one, those in directories, and those in the Hugging Face cache.

    Every call lists the directories again, since models come and go.

    Args:
        default: A directory or Hugging Face repo id; ``None`` for the embedded model.
        directories: Directories whose subdirectories are models.
        aliases: Further names of the default model; ``ANY_NAME`` for every unknown name.
        hub_cache: The Hugging Face cache; ``None`` for the user's.
        draft: The draft model of the default model, a directory or Hugging Face repo id.
        adapter: The adapter of the default model.
        trusts_code: Whether code of checkpoints may be run.
    """

    def __init__(
        self,
        default: str | None = None,
        directories: tuple[Path, ...] = (),
        aliases: tuple[str, ...] = (),
        hub_cache: Path | None = None,
        draft: str | None = None,
        adapter: KnownAdapter | None = None,
        *,
        trusts_code: bool = False,
    ) -> None:
        self._default = default
        self._draft = draft
        self._adapter = adapter
        self._directories = directories
        self._aliases = aliases
        self._hub_cache = Path(HF_HUB_CACHE) if hub_cache is None else hub_cache
        self._models = KnownModels(trusts_code=trusts_code)

    def default(self) -> KnownModel:
        """Return the default model with its draft model and its adapter.

        The models need not be downloaded yet.
        """
        model = self._embedded() if self._default is None else self._named(self._default)
        return replace(
            model,
            draft=self.default_draft(),
            adapter=self._adapter,
            default_adapter=self._adapter,
        )

    def default_draft(self) -> KnownModel | None:
        """Return the draft model of the default model."""
        return None if self._draft is None else self._named(self._draft)

    def models(self) -> list[KnownModel]:
        """Return the models that can be loaded, with distinct names, the default one first."""
        return [model for model in self._known() if model.problem is None]

    def find(self, name: str | None, transcribes: bool = False) -> KnownModel | None:
        """Return the model of that name, even one with a ``problem``; ``None`` if there is none.

        Args:
            name: A full name, or the default model's path. ``None`` or empty, an alias, or
                ``DEFAULT_MODEL``: the default model, or the first suitable one if the default model
                is not.
            transcribes: Whether the model should be a speech model, if the name leaves a choice.
        """
        if not name or name == DEFAULT_MODEL or name in self._aliases:
            return self._suitable(transcribes)
        if name in self._default_names():
            return self.default()
        known = self._known()
        exact = next((model for model in known if model.name == name), None)
        if exact is None and ANY_NAME in self._aliases and len(name) <= _MAX_NAME_CHARACTERS:
            return self._suitable(transcribes)
        return exact

    def find_draft(self, name: str) -> KnownModel | None:
        """Return the draft model of that name: that of the default model, or any known model.

        ``DEFAULT_MODEL`` is a name of the former.
        """
        default = self.default_draft()
        if default is not None and name in (DEFAULT_MODEL, self._draft, default.name):
            return default
        found = next((model for model in self._known() if model.name == name), None)
        return found and replace(found, draft=None, adapter=None, default_adapter=None)

    def similar_names(self, name: str) -> list[str]:
        """Return the names of models that contain a name, in upper or lower case."""
        wanted = name.casefold()
        return [model.name for model in self.models() if wanted in model.name.casefold()]

    def _default_names(self) -> set[str]:
        if self._default is None:
            return set()
        return {self._default, os.fspath(Path(self._default).expanduser().resolve())}

    def _suitable(self, transcribes: bool) -> KnownModel:
        default = self.default()
        if default.transcribes is transcribes:
            return default
        suitable = (one for one in self.models() if one.transcribes is transcribes)
        return next(suitable, default)

    def _named(self, source: str) -> KnownModel:
        """Return the model of a setting: a directory or a Hugging Face repo id."""
        directory = Path(source).expanduser()
        if directory.is_dir():
            return self._models.describe(directory.resolve().name, directory)
        return self._find(source) or KnownModel(source, source)

    def _known(self) -> list[KnownModel]:
        found = {model.name: model for model in reversed([*self._all()])}
        default = self.default()
        others = (model for model in found.values() if model.name != default.name)
        return [default, *sorted(others, key=attrgetter("name"))]

    def _find(self, name: str) -> KnownModel | None:
        return next((model for model in self._all() if model.name == name), None)

    def _all(self) -> Iterator[KnownModel]:
        if is_embedded_model_ready():
            yield self._embedded()
        for parent in self._directories:
            if parent.is_dir():
                yield from self._found((path.name, path) for path in sorted(parent.iterdir()))
        yield from self._found(_snapshots(self._hub_cache))

    def _found(self, directories: Iterable[tuple[str, Path]]) -> Iterator[KnownModel]:
        for name, directory in directories:
            model = self._models.find(name, directory)
            if model is not None:
                yield model

    def _embedded(self) -> KnownModel:
        if not is_embedded_model_ready():
            return KnownModel(EMBEDDED_MODEL, None)
        # Without a source, the engine loads the embedded model in its fastest form.
        return replace(self._models.describe(EMBEDDED_MODEL, embedded_model()), source=None)


def _snapshots(hub_cache: Path) -> Iterator[tuple[str, Path]]:
    """Yield the repo id and the newest snapshot of the models in the Hugging Face cache."""
    for repository in sorted(hub_cache.glob("models--*")):
        snapshot = _snapshot(repository)
        if snapshot is not None:
            yield repository.name[len("models--") :].replace("--", "/"), snapshot


def _snapshot(repository: Path) -> Path | None:
    """Return a repository's snapshot in the Hugging Face cache, of its main branch if present."""
    try:
        revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    snapshots = repository / "snapshots"
    if revision and (snapshots / revision).is_dir():
        return snapshots / revision
    return next((path for path in sorted(snapshots.glob("*")) if path.is_dir()), None)
