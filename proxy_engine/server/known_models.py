"""The facts that a model's directory states without being loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ..models.files import (
    FileProblem,
    Modality,
    context_length,
    file_problem,
    input_modalities,
    read_object,
    weight_files,
)
from .adapters import KnownAdapter

FileSignature: TypeAlias = tuple[tuple[str, int, int], ...]
"""Names, sizes and modification times of files."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model on this computer.

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
        adapter: The adapter to load with it.
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
    adapter: KnownAdapter | None = None
    default_adapter: KnownAdapter | None = None

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
        return names if self.adapter is None else (*names, "", os.fspath(self.adapter.directory))

    @property
    def draft_source(self) -> str | None:
        """The argument ``draft_model`` of ``InferenceEngine``."""
        draft = self.draft
        if draft is None:
            return None
        return draft.source if draft.directory is None else os.fspath(draft.directory)


class KnownModels:
    """Describes the models in directories. A description is computed again if a file changes.

    Args:
        trusts_code: Whether code of checkpoints may be run.
    """

    def __init__(self, *, trusts_code: bool = False) -> None:
        self._trusts_code = trusts_code
        self._known: dict[Path, tuple[FileSignature, KnownModel, bool]] = {}

    def describe(self, name: str, directory: Path) -> KnownModel:
        """Return a description of the files in a directory, with ``problem`` if they are no model.

        Raises:
            OSError: The directory cannot be read.
        """
        return replace(self._facts(directory)[0], name=name)

    def find(self, name: str, directory: Path) -> KnownModel | None:
        """Return a description of a model; ``None`` for a directory without a model's files."""
        try:
            model, has_files = self._facts(directory)
        except OSError:
            # An unreadable directory is not a model.
            return None
        return replace(model, name=name) if has_files else None

    def _facts(self, directory: Path) -> tuple[KnownModel, bool]:
        signature = file_signature(directory)
        known = self._known.get(directory)
        if known is None or known[0] != signature:
            known = self._known[directory] = (
                signature,
                *_read_facts(directory, self._trusts_code),
            )
        return known[1:]


def file_signature(directory: Path) -> FileSignature:
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


def _read_facts(directory: Path, trusts_code: bool) -> tuple[KnownModel, bool]:
    """Return a model without a name, and whether the directory has its files."""
    file = directory / "config.json"
    has_config = file.is_file()
    config = _read(file)
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


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return read_object(path) or {}
    except OSError:
        return {}
