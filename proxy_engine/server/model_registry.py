"""Which models there are on this computer, by the names that clients give them.

Only these can be asked for: a client can name neither a path nor something to be downloaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub.constants import HF_HUB_CACHE

from ..models.embedded import EMBEDDED_MODEL, embedded_model, is_embedded_model_ready
from ..models.loading import context_length
from .memory import weights_bytes

__all__ = ["KnownModel", "ModelRegistry"]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be loaded.

    ``source`` is what the engine is given, ``directory`` where it lies (``None``: not known before
    it is loaded), ``created`` seconds since 1970, ``context_length`` in tokens.
    """

    name: str
    source: str | None
    directory: Path | None = None
    created: int = 0
    context_length: int | None = None
    weights_bytes: int = 0


class ModelRegistry:
    """Finds models: the one to begin with, those of directories, and the hub's cache.

    ``first`` is a directory or hub id, ``None`` for the embedded model; ``aliases`` are further
    names of it. Looks anew whenever it is asked, since models come and go.
    """

    def __init__(
        self,
        first: str | None = None,
        directories: tuple[Path, ...] = (),
        aliases: tuple[str, ...] = (),
        hub_cache: Path | None = None,
    ) -> None:
        self._first = first
        self._directories = directories
        self._aliases = aliases
        self._hub_cache = Path(HF_HUB_CACHE) if hub_cache is None else hub_cache

    def first(self) -> KnownModel:
        """Return the model to begin with, which need not be there yet."""
        if self._first is None:
            return _embedded()
        directory = Path(self._first).expanduser()
        if directory.is_dir():
            return _described(directory.resolve().name, directory)
        return self._find(self._first) or KnownModel(self._first, self._first)

    def models(self) -> list[KnownModel]:
        """Return all models, the one to begin with first; none has the name of another."""
        found = {model.name: model for model in reversed([*self._all()])}
        first = self.first()
        return [first, *sorted((m for m in found.values() if m.name != first.name), key=_name)]

    def find(self, name: str | None) -> KnownModel | None:
        """Return the model of that name; the first one for ``None`` and its aliases."""
        if name is None or name in self._aliases or name == self._first:
            return self.first()
        return next((model for model in self.models() if model.name == name), None)

    def _find(self, name: str) -> KnownModel | None:
        return next((model for model in self._all() if model.name == name), None)

    def _all(self) -> Iterator[KnownModel]:
        if is_embedded_model_ready():
            yield _embedded()
        for parent in self._directories:
            if parent.is_dir():
                for directory in sorted(parent.iterdir()):
                    if _is_model(directory):
                        yield _described(directory.name, directory)
        for repository in sorted(self._hub_cache.glob("models--*")):
            snapshot = _snapshot(repository)
            if snapshot is not None and _is_model(snapshot):
                yield _described(repository.name[len("models--") :].replace("--", "/"), snapshot)


def _name(model: KnownModel) -> str:
    return model.name


def _embedded() -> KnownModel:
    if not is_embedded_model_ready():
        return KnownModel(EMBEDDED_MODEL, None)
    known = _described(EMBEDDED_MODEL, embedded_model())
    # By its own name it is loaded in the way that suits it best.
    return KnownModel(
        known.name,
        None,
        known.directory,
        known.created,
        known.context_length,
        known.weights_bytes,
    )


def _described(name: str, directory: Path) -> KnownModel:
    config = directory / "config.json"
    return KnownModel(
        name,
        os.fspath(directory),
        directory,
        int(config.stat().st_mtime) if config.is_file() else 0,
        context_length(_read(config)),
        weights_bytes(directory),
    )


def _is_model(directory: Path) -> bool:
    try:
        return (directory / "config.json").is_file() and any(directory.glob("model*.safetensors"))
    except OSError:
        # One that nobody may look into is none.
        return False


def _snapshot(repository: Path) -> Path | None:
    """Return the files of a repository in the hub's cache, of its main branch if they are there."""
    try:
        revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    snapshots = repository / "snapshots"
    if revision and (snapshots / revision).is_dir():
        return snapshots / revision
    return next((path for path in sorted(snapshots.glob("*")) if path.is_dir()), None)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, Mapping) else {}
