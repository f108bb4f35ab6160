"""Which models there are on this computer, by the names that clients give them.

Only these can be asked for: a client can name neither a path nor something to be downloaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from huggingface_hub.constants import HF_HUB_CACHE

from ..models.checking import file_problem
from ..models.embedded import EMBEDDED_MODEL, embedded_model, is_embedded_model_ready
from ..models.loading import context_length
from .memory import weights_bytes

__all__ = ["KnownModel", "ModelRegistry", "file_signature"]

_Signature: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model on this computer.

    ``source`` is what the engine is given, ``directory`` where it lies (``None``: not known before
    it is loaded), ``created`` seconds since 1970, ``context_length`` in tokens. ``problem``: why
    its files cannot be loaded, ``None`` where no reason is seen.
    """

    name: str
    source: str | None
    directory: Path | None = None
    created: int = 0
    context_length: int | None = None
    weights_bytes: int = 0
    problem: str | None = None


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
        self._problems: dict[Path, tuple[_Signature, str | None]] = {}

    def first(self) -> KnownModel:
        """Return the model to begin with, which need not be there yet."""
        if self._first is None:
            return _embedded()
        directory = Path(self._first).expanduser()
        if directory.is_dir():
            return self._described(directory.resolve().name, directory)
        return self._find(self._first) or KnownModel(self._first, self._first)

    def models(self) -> list[KnownModel]:
        """Return the models that can be loaded, the one to begin with first.

        None has the name of another.
        """
        return [model for model in self._known() if model.problem is None]

    def find(self, name: str | None) -> KnownModel | None:
        """Return the model of that name; the first one for ``None`` and its aliases.

        Also one with a ``problem``.
        """
        if name is None or name in self._aliases or name == self._first:
            return self.first()
        return next((model for model in self._known() if model.name == name), None)

    def _known(self) -> list[KnownModel]:
        found = {model.name: model for model in reversed([*self._all()])}
        first = self.first()
        return [first, *sorted((m for m in found.values() if m.name != first.name), key=_name)]

    def _find(self, name: str) -> KnownModel | None:
        return next((model for model in self._all() if model.name == name), None)

    def _all(self) -> Iterator[KnownModel]:
        if is_embedded_model_ready():
            yield _embedded()
        for parent in self._directories:
            if parent.is_dir():
                for directory in sorted(parent.iterdir()):
                    if _is_model(directory):
                        yield self._described(directory.name, directory)
        for repository in sorted(self._hub_cache.glob("models--*")):
            snapshot = _snapshot(repository)
            if snapshot is not None and _is_model(snapshot):
                name = repository.name[len("models--") :].replace("--", "/")
                yield self._described(name, snapshot)

    def _described(self, name: str, directory: Path) -> KnownModel:
        return replace(_described(name, directory), problem=self._problem(directory))

    def _problem(self, directory: Path) -> str | None:
        """``file_problem``, looked for again when a file has changed."""
        signature = file_signature(directory)
        known = self._problems.get(directory)
        if known is None or known[0] != signature:
            known = self._problems[directory] = (signature, file_problem(directory))
        return known[1]


def file_signature(directory: Path) -> _Signature:
    """Names, sizes and times of a directory's files: equal, if nothing has changed."""
    try:
        return tuple(sorted(map(_facts, directory.iterdir())))
    except OSError:
        return ()


def _facts(path: Path) -> tuple[str, int, int]:
    try:
        stat = path.stat()
    except OSError:
        # The hub's cache may have links to files that are not downloaded yet.
        return path.name, -1, 0
    return path.name, stat.st_size, stat.st_mtime_ns


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
