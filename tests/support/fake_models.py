"""A model host whose models are names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from proxy_engine.server.load_checks import MemoryGate, available_bytes
from proxy_engine.server.metrics import Metrics
from proxy_engine.server.model_host import ModelHost
from proxy_engine.server.models import KnownModel, ModelRegistry


class FakeEngine:
    def __init__(self, model: KnownModel) -> None:
        self.model = model
        self.input_modalities = model.input_modalities
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Registry(ModelRegistry):
    def __init__(self, *names: str, size: int = 0, reads_audio: Collection[str] = ()) -> None:
        self._known = [
            KnownModel(
                name,
                name,
                weights_bytes=size,
                input_modalities=frozenset({"audio" if name in reads_audio else "text"}),
            )
            for name in names
        ]

    def first(self) -> KnownModel:
        return self._known[0]

    def models(self) -> list[KnownModel]:
        return self._known

    def find(self, name: str | None, transcribes: bool = False) -> KnownModel | None:
        known = (m for m in self._known if name in (None, m.name))
        return next((m for m in known if name or m.transcribes is transcribes), None)

    def similar_names(self, name: str) -> list[str]:
        return [m.name for m in self._known if name and name in m.name]

    def find_draft(self, name: str) -> KnownModel | None:
        return None if name == "default_model" else self.find(name)


def host_of(
    *names: str,
    load: Callable[[KnownModel], Any] = FakeEngine,
    size: int = 0,
    reads_audio: Collection[str] = (),
    available: Callable[[int | None], int] = available_bytes,
    memory: MemoryGate | None = None,
    **more: Any,
) -> ModelHost:
    memory = memory or MemoryGate(available=available)
    registry = Registry(*names, size=size, reads_audio=reads_audio)
    return ModelHost(registry, load, Metrics(), memory=memory, **more)
