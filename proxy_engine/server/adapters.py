"""The adapters on this computer, by name.

Clients can request only these: a client cannot name a path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..models.adapters import CONFIGURATION, WEIGHTS

_MAX_LISTED = 8
"""The number of names in the error of an unknown adapter."""


@dataclass(frozen=True, slots=True)
class KnownAdapter:
    """An adapter on this computer.

    Attributes:
        name: The name for clients: that of its directory.
        directory: Where its files are.
    """

    name: str
    directory: Path

    @property
    def weights_bytes(self) -> int:
        """The size of its weights; 0 if they cannot be read."""
        try:
            return (self.directory / WEIGHTS).stat().st_size
        except OSError:
            return 0


class AdapterRegistry:
    """Finds adapters: that of the default model, and those in directories.

    Every call lists the directories again, since adapters come and go.

    Args:
        default: The adapter of the default model.
        directories: Directories whose subdirectories are adapters. A symbolic link that leads out
            of its directory is none.
    """

    def __init__(self, default: Path | None = None, directories: tuple[Path, ...] = ()) -> None:
        self._default = default
        self._directories = directories

    def default(self) -> KnownAdapter | None:
        """Return the adapter of the default model."""
        if self._default is None:
            return None
        directory = self._default.expanduser().resolve()
        return KnownAdapter(directory.name, directory)

    def find(self, name: str) -> KnownAdapter | None:
        """Return the adapter of that name; ``None`` if there is none."""
        return next((adapter for adapter in self._all() if adapter.name == name), None)

    @property
    def listed_names(self) -> str:
        """Some names, as a sentence of an error."""
        names = [*dict.fromkeys(adapter.name for adapter in self._all())]
        if not names:
            return "The server has no adapters; --adapter-directories adds some."
        more = ", …" if len(names) > _MAX_LISTED else ""
        return f"Known are {', '.join(names[:_MAX_LISTED])}{more}."

    def _all(self) -> Iterator[KnownAdapter]:
        default = self.default()
        if default is not None:
            yield default
        for given in self._directories:
            parent = given.expanduser().resolve()
            for path in sorted(parent.iterdir()) if parent.is_dir() else ():
                directory = _inside(parent, path)
                if directory is not None:
                    yield KnownAdapter(path.name, directory)


def _inside(parent: Path, path: Path) -> Path | None:
    """Return the directory of an adapter without symbolic links; ``None`` if it is none."""
    try:
        directory = path.resolve()
        is_adapter = (directory / CONFIGURATION).is_file()
    except (OSError, RuntimeError):
        # It cannot be read, or is a loop of symbolic links.
        return None
    return directory if is_adapter and directory.is_relative_to(parent) else None
