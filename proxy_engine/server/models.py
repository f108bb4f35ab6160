"""The models and adapters on this computer, by name.

Clients can request only these: a client can neither name a path nor cause a download.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from huggingface_hub.constants import HF_HUB_CACHE

from ..models.adapters import CONFIGURATION, WEIGHTS
from ..models.draft_heads import OWN, is_own
from ..models.embedded import EMBEDDED_MODEL, embedded_model, is_embedded_model_ready
from ..models.files import (
    FileProblem,
    Modality,
    context_length,
    file_problem,
    input_modalities,
    read_object,
    weight_files,
)

DEFAULT_MODEL = "default_model"
"""mlx-lm's name for the model, and for the draft model, that the server was started with."""

ANY_NAME = "*"
"""The alias that makes every unknown name a name of the default model."""

_MAX_NAME_CHARACTERS = 1000
"""The length of unknown names, which ``ANY_NAME`` allows. Every chunk of an answer repeats it."""

FileSignature: TypeAlias = tuple[tuple[str, int, int], ...]
"""Names, sizes and modification times of files."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The names by which a request selects its model.

    Attributes:
        name: The model's name; ``None`` or empty for a suitable one: the model in memory, the
            default, or another one.
        draft: The draft model's name; ``None`` for that of the model in memory, or else that of the
            default model.
        adapter: The adapter's name; ``None`` or empty for the default model's if the model is the
            default one, and for no adapter otherwise.
        transcribes: Whether it must be a speech model, or else one that answers prompts.
    """

    name: str | None = None
    draft: str | None = None
    adapter: str | None = None
    transcribes: bool = False


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model on this computer: the facts that its directory states without being loaded.

    Attributes:
        name: The name for clients.
        source: The argument of ``InferenceEngine``.
        directory: Where its files are; ``None`` if that is unknown before it is loaded.
        created: When it was installed, in seconds since 1970.
        context_length: In tokens; ``None`` if its configuration sets no limit.
        weights_bytes: The size of its weight files.
        input_modalities: The kinds of content that it reads.
        problem: Why its files cannot be loaded; ``None`` if no reason is found.
        draft: The draft model to load with it.
        adapter: The directory of the adapter to load with it, whose name is that for clients.
        default_adapter: The adapter of requests that name none.
    """

    name: str
    source: str | None
    directory: Path | None = None
    created: int = 0
    context_length: int | None = None
    weights_bytes: int = 0
    input_modalities: frozenset[Modality] = frozenset({"text"})
    problem: FileProblem | None = None
    draft: KnownModel | None = None
    adapter: Path | None = None
    default_adapter: Path | None = None

    @property
    def transcribes(self) -> bool:
        """Whether it is a speech model, which transcribes recordings and answers no prompts."""
        return "text" not in self.input_modalities

    @property
    def files(self) -> tuple[KnownModel, ...]:
        """The model, and its draft model if it has one."""
        return (self,) if self.draft is None else (self, self.draft)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the model and its draft model, and the directory of its adapter."""
        names = tuple(model.name for model in self.files)
        # No model has an empty name.
        return names if self.adapter is None else (*names, "", os.fspath(self.adapter))

    @property
    def draft_source(self) -> str | None:
        """The argument ``draft_model`` of ``InferenceEngine``."""
        draft = self.draft
        if draft is None:
            return None
        return draft.source if draft.directory is None else os.fspath(draft.directory)

    @property
    def total_weights_bytes(self) -> int:
        """The size of the weights of the model, its draft model and its adapter."""
        total = sum(model.weights_bytes for model in self.files)
        weights = None if self.adapter is None else self.adapter / WEIGHTS
        return total + (weights.stat().st_size if weights and weights.is_file() else 0)

    def signature(self) -> list[FileSignature]:
        """Return a value that changes with the files of the model, its draft, or its adapter."""
        found = (*(model.directory for model in self.files), self.adapter)
        return [_signature(directory) for directory in found if directory is not None]


class ModelRegistry:
    """Finds models: the default model, and models in directories and in the Hugging Face cache.

    Every call lists the directories again, since models and adapters come and go.

    Args:
        default: A directory or Hugging Face repo id; ``None`` for the embedded model.
        directories: Directories whose subdirectories are models.
        aliases: Further names of the default model; ``ANY_NAME`` for every unknown name.
        hub_cache: The Hugging Face cache; ``None`` for the user's.
        draft: The draft model of the default model, a directory or Hugging Face repo id.
        adapter: The directory of the default model's adapter.
        adapter_directories: Directories whose subdirectories are adapters. A symbolic link that
            leads out of its directory is none.
        trusts_code: Whether code of checkpoints may be run.
    """

    def __init__(
        self,
        default: str | None = None,
        directories: tuple[Path, ...] = (),
        aliases: tuple[str, ...] = (),
        hub_cache: Path | None = None,
        draft: str | None = None,
        adapter: Path | None = None,
        adapter_directories: tuple[Path, ...] = (),
        *,
        trusts_code: bool = False,
    ) -> None:
        self._default = default
        self._draft = draft
        self._adapter = None if adapter is None else adapter.expanduser().resolve()
        self._adapter_directories = adapter_directories
        self._directories = directories
        self._aliases = aliases
        self._hub_cache = Path(HF_HUB_CACHE) if hub_cache is None else hub_cache
        self._trusts_code = trusts_code

    def default(self) -> KnownModel:
        """Return the default model with its draft model and its adapter.

        The models need not be downloaded yet.
        """
        model = self._embedded() if self._default is None else self._named(self._default)
        draft = None if self._draft is None else self._named(self._draft)
        return replace(model, draft=draft, adapter=self._adapter, default_adapter=self._adapter)

    def models(self) -> list[KnownModel]:
        """Return the models that can be loaded, with distinct names, the default one first."""
        return [model for model in self._known() if model.problem is None]

    def find(self, name: str | None, transcribes: bool = False) -> KnownModel | None:
        """Return the model of that name, even with a ``problem``; ``None`` if it is not known.

        Args:
            name: A full name, or the default model's path. ``None`` or empty, an alias, or
                ``DEFAULT_MODEL``: the default model, or the first suitable one if the default model
                is not.
            transcribes: Whether the model should be a speech model, if the name leaves a choice.
        """
        if not name or name == DEFAULT_MODEL or name in self._aliases:
            return self._suitable(transcribes)
        default = self._default
        if default and name in (default, os.fspath(Path(default).expanduser().resolve())):
            return self.default()
        exact = next((model for model in self._known() if model.name == name), None)
        if exact is None and ANY_NAME in self._aliases and len(name) <= _MAX_NAME_CHARACTERS:
            return self._suitable(transcribes)
        return exact

    def find_draft(self, name: str) -> KnownModel | None:
        """Return the draft model of that name: the default model's, or any known model.

        ``DEFAULT_MODEL`` is the default model's draft model, and ``OWN`` the heads of any model.
        """
        if is_own(name):
            return KnownModel(OWN, OWN)
        default = None if self._draft is None else self._named(self._draft)
        if default is not None and name in (DEFAULT_MODEL, self._draft, default.name):
            return default
        found = next((model for model in self._known() if model.name == name), None)
        return found and replace(found, draft=None, adapter=None, default_adapter=None)

    def similar_names(self, name: str) -> list[str]:
        """Return the names of models that contain a name, in upper or lower case."""
        wanted = name.casefold()
        return [model.name for model in self.models() if wanted in model.name.casefold()]

    def adapters(self) -> dict[str, Path]:
        """Return the directories of all adapters by name, the default model's first."""
        found = {} if self._adapter is None else {self._adapter.name: self._adapter}
        for given in self._adapter_directories:
            parent = given.expanduser().resolve()
            for path in sorted(parent.iterdir()) if parent.is_dir() else ():
                if (directory := _adapter_inside(parent, path)) is not None:
                    found.setdefault(path.name, directory)
        return found

    def _suitable(self, transcribes: bool) -> KnownModel:
        default = self.default()
        if default.transcribes is transcribes:
            return default
        suitable = (model for model in self.models() if model.transcribes is transcribes)
        return next(suitable, default)

    def _named(self, source: str) -> KnownModel:
        """Return the model of a setting: a directory or a Hugging Face repo id."""
        directory = Path(source).expanduser()
        if directory.is_dir():
            return self._described(directory.resolve().name, directory)[0]
        found = next((model for model in self._all() if model.name == source), None)
        return found or KnownModel(source, source)

    def _known(self) -> list[KnownModel]:
        found = {model.name: model for model in reversed([*self._all()])}
        default = self.default()
        others = (model for model in found.values() if model.name != default.name)
        return [default, *sorted(others, key=attrgetter("name"))]

    def _all(self) -> Iterator[KnownModel]:
        if is_embedded_model_ready():
            yield self._embedded()
        for parent in self._directories:
            if parent.is_dir():
                yield from self._found((path.name, path) for path in sorted(parent.iterdir()))
        yield from self._found(_snapshots(self._hub_cache))

    def _found(self, directories: Iterable[tuple[str, Path]]) -> Iterator[KnownModel]:
        for name, directory in directories:
            try:
                model, has_files = self._described(name, directory)
            except OSError:
                # An unreadable directory is not a model.
                continue
            if has_files:
                yield model

    def _embedded(self) -> KnownModel:
        if not is_embedded_model_ready():
            return KnownModel(EMBEDDED_MODEL, None)
        # Without a source, the engine loads the embedded model in its fastest form.
        return replace(self._described(EMBEDDED_MODEL, embedded_model())[0], source=None)

    def _described(self, name: str, directory: Path) -> tuple[KnownModel, bool]:
        model, has_files = _read_facts(directory, _signature(directory), self._trusts_code)
        return replace(model, name=name), has_files


@lru_cache(maxsize=4096)
def _read_facts(
    directory: Path, signature: FileSignature, trusts_code: bool
) -> tuple[KnownModel, bool]:
    """Return a model without a name, and whether the directory has its files.

    Args:
        directory: The directory.
        signature: Its signature. A result is reused until a file changes.
        trusts_code: Whether code of checkpoints may be run.

    Raises:
        OSError: The directory cannot be read.
    """
    file = directory / "config.json"
    has_config = file.is_file()
    try:
        config = read_object(file) or {}
    except OSError:
        config = {}
    # The Hugging Face cache may link to files that are not downloaded yet.
    weights = weight_files(directory, config)
    model = KnownModel(
        "",
        os.fspath(directory),
        directory,
        int(file.stat().st_mtime) if has_config else 0,
        context_length(config),
        sum(path.stat().st_size for path in weights if path.is_file()),
        input_modalities(config),
        file_problem(directory, trusts_code),
    )
    return model, has_config and bool(weights)


def _signature(directory: Path) -> FileSignature:
    """Names, sizes and modification times of a directory's files; equal if nothing has changed."""
    try:
        return tuple(sorted(map(_file_facts, directory.iterdir())))
    except OSError:
        return ()


def _file_facts(path: Path) -> tuple[str, int, int]:
    try:
        stat = path.stat()
    except OSError:
        # The Hugging Face cache may link to files that are not downloaded yet.
        return path.name, -1, 0
    return path.name, stat.st_size, stat.st_mtime_ns


def _adapter_inside(parent: Path, path: Path) -> Path | None:
    """Return the directory of an adapter without symbolic links; ``None`` if it is none."""
    try:
        directory = path.resolve()
        is_adapter = (directory / CONFIGURATION).is_file()
    except (OSError, RuntimeError):
        # The directory cannot be read, or is a loop of symbolic links.
        return None
    return directory if is_adapter and directory.is_relative_to(parent) else None


def _snapshots(hub_cache: Path) -> Iterator[tuple[str, Path]]:
    """Yield the repo id and a snapshot of each model in the Hugging Face cache.

    The snapshot of the main branch is preferred.
    """
    for repository in sorted(hub_cache.glob("models--*")):
        try:
            revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            revision = ""
        found = [path for path in sorted((repository / "snapshots").glob("*")) if path.is_dir()]
        found.sort(key=lambda path: path.name != revision)
        if found:
            yield repository.name[len("models--") :].replace("--", "/"), found[0]
