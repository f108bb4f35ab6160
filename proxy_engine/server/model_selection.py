"""The model that a request means."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..checks.texts import short_repr
from .adapters import AdapterRegistry, KnownAdapter
from .errors import ApiError, unsuitable_model
from .known_models import KnownModel
from .model_registry import DEFAULT_MODEL, ModelRegistry

_MAX_MATCHES = 8
"""The number of names in the error of an unknown model."""


class ModelSelection:
    """Finds models by the names of requests.

    Attributes:
        selected: The model that answers requests without a name: it is in memory, unloaded, or
            being loaded. ``None`` for the default model.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        selected: KnownModel | None = None,
        adapters: AdapterRegistry | None = None,
    ) -> None:
        self._registry = registry
        self._adapters = adapters or AdapterRegistry()
        self.selected = selected

    async def find(
        self,
        name: str | None,
        draft_name: str | None,
        transcribes: bool,
        *,
        adapter_name: str | None = None,
        is_loaded: bool,
    ) -> KnownModel:
        """Return a model with its draft model and its adapter.

        Args:
            name: The model's name; ``None`` or empty for a suitable one.
            draft_name: The draft model's name; ``None`` for that of the selected model, or else
                that of the default model.
            transcribes: Whether a speech model is suitable.
            adapter_name: The adapter's name; ``None`` or empty for the default model's if the model
                is the default one, and for no adapter otherwise.
            is_loaded: Whether a model is in memory.

        Raises:
            ApiError: 404 if there is no such model or adapter.
        """
        model = await self._find_selected(name, transcribes, is_loaded)
        if model is None:
            model = await asyncio.to_thread(self._registry.find, name, transcribes)
        if model is None:
            raise await self._not_found(name or "", "model")
        # The selected model may have the adapter of an earlier request.
        model = replace(model, adapter=model.default_adapter)
        if adapter_name:
            model = replace(model, adapter=await asyncio.to_thread(self._adapter, adapter_name))
        if draft_name is None:
            return model
        draft = await asyncio.to_thread(self._registry.find_draft, draft_name)
        if draft is not None:
            return replace(model, draft=draft)
        if draft_name != DEFAULT_MODEL:
            raise await self._not_found(draft_name, "draft_model")
        return model

    async def _find_selected(
        self, name: str | None, transcribes: bool, is_loaded: bool
    ) -> KnownModel | None:
        """Return the selected model if a request of that name means it."""
        model = self.selected
        if model is None:
            return None
        is_meant = name == model.name if name else model.transcribes is transcribes
        if is_loaded or not is_meant:
            return model if is_meant else None
        # Its files may have changed.
        known = await asyncio.to_thread(self._registry.find, model.name, transcribes)
        return None if known is None else replace(known, draft=model.draft)

    def _adapter(self, name: str) -> KnownAdapter:
        adapter = self._adapters.find(name)
        if adapter is None:
            what = f"adapter {short_repr(name)} not found. {self._adapters.listed_names}"
            raise ApiError(404, what, code="adapter_not_found", param="adapters")
        return adapter

    async def _not_found(self, name: str, param: str) -> ApiError:
        similar = await asyncio.to_thread(self._registry.similar_names, name)
        what = f"model {short_repr(name)} not found"
        if similar:
            what += f". Did you mean {', or '.join(map(repr, similar[:_MAX_MATCHES]))}?"
        return ApiError(404, what, code="model_not_found", param=param)


def check_suitable(name: str, is_speech_model: bool, transcribes: bool) -> None:
    """Raise for a speech model that should answer prompts, or a model that cannot transcribe.

    Raises:
        ApiError: 400.
    """
    if is_speech_model and not transcribes:
        raise unsuitable_model(
            name, "answers no prompts; send recordings to /v1/audio/transcriptions"
        )
    if transcribes and not is_speech_model:
        raise unsuitable_model(name, "transcribes no speech; name a model that reads audio only")
