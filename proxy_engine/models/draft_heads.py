"""Draft heads of mlx-vlm: which models they are, how they are loaded, and how they are called.

mlx-vlm has the modules of the heads and reads their checkpoints. Its own loops around them are not
used. A module keeps the cache and the position of one text in attributes; here both are given with
every call, so that texts can take turns. The families differ in few ways, which :data:`FAMILIES`
lists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache, make_prompt_cache
from safetensors import SafetensorError

from ..errors import DraftModelError, EngineError
from ..generation.speculation.draft_heads import HeadOutput
from ..prompt_cache.layers import flat, to_mlx_lm
from ..runtime.blas import widen_on_cpu
from ..runtime.extras import import_extra
from .embedded import EMBEDDED_MODEL
from .files import FileProblem
from .kinds import whole_model
from .loading import LoadedModel
from .locations import check_location, not_found_error, read_configuration

OWN = "own"
"""The name of the heads that a model's own checkpoint has."""

_DRAFTERS = "mlx_vlm.speculative.drafters"
_NO_HEADS = "its checkpoint has no heads"
_NEVER = -1e4
"""The logit of tokens that are not in the vocabulary of a head."""


class DraftHeadModule(Module):
    """A head of mlx-vlm as the loop calls it: a chain, which predicts a token in each pass.

    Args:
        module: mlx-vlm's module.
        family: How it is called.
        target: The model whose embeddings and output layer it uses.

    Attributes:
        state_layers: Layers of the target whose outputs it reads.
        reads_target: Whether it attends to the keys and values of the target.
        mask_id: ``None``: it is a chain.
        block_size: Tokens that it is trained to predict.
        first_prediction: The position of a block's first prediction behind the last known token.
    """

    reads_target = False
    mask_id: int | None = None
    first_prediction = 1

    def __init__(self, module: Module, family: HeadFamily, target: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # Engines that share a module have other targets, and other threads.
        self.module = copy(module)
        self.block_size = int(module.config.block_size)
        self.state_layers: Sequence[int] = ()
        self._first_position = family.first_position
        self._bind(target)
        self.make_cache()

    def _bind(self, target: Module) -> None:
        self.module.bind(target)

    def make_cache(self) -> list[Any]:
        """Return an empty cache of mlx-lm's classes.

        Raises:
            ValueError: A cache has another class.
        """
        caches = [to_mlx_lm(layer) for layer in self.module.make_cache()]
        if self.mask_id is None and any(type(layer) is not KVCache for layer in flat(caches)):
            # The tokens of a draft would not leave them.
            raise ValueError("its layers have sliding windows or states, which are not supported")
        return caches

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Read states, as ``DraftHead.read``."""
        module = self.module
        module._cache, module._next_position = cache, positions + self._first_position
        try:
            output = module._forward_tokens(tokens, states, mx.int32)
        finally:
            module._cache, module._next_position = [], 0
        return HeadOutput(*output) if isinstance(output, tuple) else HeadOutput(output, output)

    def logits(self, features: mx.array) -> mx.array:
        """Return logits of the target's tokens, shape (rows, tokens, vocabulary)."""
        return cast(mx.array, self.module._lm_head_fn(features))

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of one position, as ``DraftHead.logits_after``."""
        return logits


class NemotronHead(DraftHeadModule):
    """The head of Nemotron-H, whose module accepts mlx-vlm's own target only."""

    def _bind(self, target: Module) -> None:
        language_model: Any = getattr(target, "language_model", target)
        self.module._input_embed = language_model.backbone.embeddings
        self.module._lm_head_fn = language_model.lm_head


class Eagle3Head(DraftHeadModule):
    """An EAGLE-3 head: it reads the states of three layers, and its vocabulary may be smaller."""

    def __init__(self, module: Module, family: HeadFamily, target: Module) -> None:
        super().__init__(module, family, target)
        self.state_layers = sorted(set(module.config.capture_layer_ids))
        self._ids: mx.array | None = None
        if module.d2t is not None:
            self._ids = mx.arange(module.draft_vocab_size) + module.d2t

    def logits(self, features: mx.array) -> mx.array:
        """Return logits of the target's tokens, shape (rows, tokens, vocabulary)."""
        logits: mx.array = self.module._logits(features)
        if self._ids is None:
            return logits
        shape = (*logits.shape[:-1], self.module.target_vocab_size)
        wide = mx.full(shape, _NEVER, logits.dtype)
        wide[..., self._ids] = logits
        return wide


class AssistantHead(DraftHeadModule):
    """An assistant of Gemma 4, which attends to keys and values of the target."""

    reads_target = True

    def _bind(self, target: Module) -> None:
        # The module notes the types of the target's layers in its configuration.
        self.module.config = copy(self.module.config)
        self.module.bind(target)
        language_model: Any = getattr(target, "language_model", target)
        types = [layer.layer_type for layer in language_model.layers]
        stored = len(make_prompt_cache(cast(Module, language_model)))
        # Layers without a cache share the keys and values of the last one of their type.
        self._layers = {kind: number for number, kind in enumerate(types[:stored])}

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Read the last state, as ``DraftHead.read``."""
        module = self.module
        embedded = module._input_embed(tokens[:, -1:]) * module._input_embed_scale
        inputs = mx.concatenate([embedded, states[:, -1:]], axis=-1)
        layers = {kind: cache[number] for kind, number in self._layers.items()}
        shared = {kind: _seen(layer) for kind, layer in layers.items()}
        module._kv_valid_len = cache[0].end
        following, features = module._forward_hidden(inputs, shared, mx.array([[positions]]))
        return HeadOutput(features, following)


def _seen(layer: Any) -> tuple[mx.array, mx.array]:
    """Return the keys and values of a target's layer that are within its window."""
    window = layer.window or layer.end
    return layer.keys[:, :, -window:], layer.values[:, :, -window:]


class BlockHead(DraftHeadModule):
    """A DFlash head: a block, whose tokens are predicted in one pass."""

    def __init__(self, module: Module, family: HeadFamily, target: Module) -> None:
        self.mask_id = int(module.config.mask_token_id)
        super().__init__(module, family, target)
        self.state_layers = sorted(set(module.config.target_layer_ids))

    def _bind(self, target: Module) -> None:
        # The check accepts mlx-vlm's own targets only. A pass finds misfits.
        self.module.validate_target_compatibility = lambda _: None
        self.module.bind(target)

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Read states, as ``DraftHead.read``. The positions are those of the cache."""
        features = self.module._hidden(tokens, states, cache)
        return HeadOutput(features, features)

    def logits(self, features: mx.array) -> mx.array:
        """Return logits of the target's tokens, shape (rows, tokens, vocabulary)."""
        return cast(mx.array, self.module._logits(features))


class MarkovHead(BlockHead):
    """A DSpark head: a block whose logits depend on the token before."""

    def __init__(self, module: Module, family: HeadFamily, target: Module) -> None:
        super().__init__(module, family, target)
        self.first_prediction = 0 if module.config.sample_from_anchor else 1

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of one position, as ``DraftHead.logits_after``."""
        found: mx.array = self.module.markov_head.apply_step_logits(logits, mx.array([token_id]))
        return found


class SelectorHead(BlockHead):
    """A DFlash 2 head: a block whose likeliest tokens are chosen by the token before."""

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the scores of the likeliest tokens, as ``DraftHead.logits_after``."""
        selector = self.module.candidate_selector
        candidates = mx.argpartition(logits, -selector.top_k, axis=-1)[:, -selector.top_k :]
        edges = mx.sum(
            selector.predecessor_codebook(mx.array([[token_id]]))
            * selector.hidden_projection(features)[:, None]
            * selector.successor_codebook(candidates),
            axis=-1,
        )
        scores = mx.take_along_axis(logits, candidates, axis=-1) + edges
        others = mx.full(logits.shape, _NEVER, logits.dtype)
        return mx.put_along_axis(others, candidates, scores, axis=-1)


@dataclass(frozen=True, slots=True)
class HeadFamily:
    """How the heads of a family are called.

    Attributes:
        kind: The class of their adapter.
        first_position: The position of the first state.
    """

    kind: type[DraftHeadModule] = DraftHeadModule
    first_position: int = 0


FAMILIES: Mapping[str, HeadFamily] = {
    "qwen3_5_mtp": HeadFamily(),
    "nemotron_h_mtp": HeadFamily(NemotronHead),
    "glm_moe_dsa_mtp": HeadFamily(),
    "gemma4_assistant": HeadFamily(AssistantHead),
    "eagle3": HeadFamily(Eagle3Head, first_position=1),
    "qwen3_dflash": HeadFamily(BlockHead),
    "gemma4_dflash": HeadFamily(BlockHead),
    "dflash2": HeadFamily(SelectorHead),
    "dspark": HeadFamily(MarkovHead),
    "gemma4_dspark": HeadFamily(MarkovHead),
}
"""The families by the packages of their modules."""

_TYPES = frozenset([*FAMILIES, "gemma4_unified_assistant"])
_ARCHITECTURES = frozenset(["DFlash2DraftModel", "Gemma4DSparkModel"])
"""Heads whose configurations name the type of a model."""


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head that is ready to run.

    Attributes:
        name: Directory, repo id, or the name of its module.
        model: The head.
    """

    name: str
    model: DraftHeadModule


def is_draft_head(source: str | os.PathLike[str] | Module) -> bool:
    """Whether the argument ``draft_model`` of an engine names a head, or is one in memory.

    ``False`` if the configuration cannot be read, which the loader of draft models reports.
    """
    if isinstance(source, Module):
        return type(source).__module__.startswith(_DRAFTERS)
    if is_own(source):
        return True
    path = os.fspath(source)
    try:
        check_location(path)
        config = read_configuration(path)
    except (EngineError, OSError, ValueError):
        return False
    types = config.get("model_type"), config.get("speculators_model_type")
    architectures = config.get("architectures")
    named = [*types, *(architectures if isinstance(architectures, list) else [])]
    known = _TYPES | _ARCHITECTURES
    return "dflash_config" in config or any(
        isinstance(name, str) and name in known for name in named
    )


def is_own(source: object) -> bool:
    """Whether the argument ``draft_model`` of an engine names the heads of the model itself."""
    if not isinstance(source, str | os.PathLike):
        return False
    return os.fspath(source) == OWN and not os.path.isdir(source)


def check_own_heads(model: str | os.PathLike[str] | Module | None) -> None:
    """Check that the checkpoint of a model has heads, without reading weights.

    Of a directory, the configuration and the names of the tensors are read; of a repo, the
    configuration.

    Args:
        model: The argument ``model`` of an engine.

    Raises:
        DraftModelError: It has no heads, or heads of a family that is not supported.
        MissingExtraError: mlx-vlm is not installed.
    """
    split = import_extra("draft-heads", f"{_DRAFTERS}.mtp_split", purpose="a draft head")
    if model is None:
        raise misfit(OWN, EMBEDDED_MODEL, _NO_HEADS)
    if isinstance(model, Module):
        raise misfit(OWN, type(model).__module__, "a model in memory has no checkpoint")
    path = os.fspath(model)
    try:
        check_location(path)
        splitter = split.get_mtp_splitter(source_config=read_configuration(path))
        if splitter is not None and os.path.isdir(path):
            splitter = split.detect_mtp_splitter(Path(path))
    except (EngineError, OSError, ValueError, SafetensorError):
        # The loader reports models that cannot be read.
        return
    if splitter is None:
        raise misfit(OWN, path, _NO_HEADS)
    _family(splitter.output_model_type, OWN, path)


def load_draft_head(source: str | os.PathLike[str] | Module, target: LoadedModel) -> LoadedHead:
    """Load a head. To be called on the thread that will run it.

    Args:
        source: Directory, Hugging Face repo id, a module of mlx-vlm with evaluated weights, or
            ``OWN``.
        target: The model that verifies the drafts.

    Raises:
        DraftModelError: The head does not fit the model.
        ModelError: There is no such head, or it cannot be loaded.
        MissingExtraError: mlx-vlm is not installed.
    """
    drafters = import_extra("draft-heads", _DRAFTERS, purpose="a draft head")
    if isinstance(source, Module):
        name, module = type(source).__module__, source
    else:
        name = path = target.name if is_own(source) else os.fspath(source)
        check_location(path)
        try:
            module, _ = drafters.load_drafter(path)
        except EngineError:
            raise
        except Exception as error:
            found = None if os.path.isdir(path) else not_found_error(error, name, None)
            raise found or FileProblem(f"it has no draft head: {error}").error(name) from error
        widen_on_cpu(module, name)
        mx.eval(module.parameters())
    package = type(module).__module__.removeprefix(f"{_DRAFTERS}.").partition(".")[0]
    family = _family(package, name, target.name)
    try:
        head = family.kind(module, family, whole_model(target.model))
    except Exception as error:
        raise misfit(name, target.name, str(error)) from error
    return LoadedHead(name, head)


def _family(package: str, head: str, target: str) -> HeadFamily:
    if package not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise misfit(head, target, f"heads of type {package!r} are none of {known}")
    return FAMILIES[package]


def misfit(head: str, target: str, reason: str) -> DraftModelError:
    """Return the error of a head that does not fit a model."""
    return DraftModelError(
        f"the draft head {head!r} does not fit {target!r}: {reason}",
        model=head,
        target=target,
        token_id=None,
        hint="Use a head that was trained for this model.",
    )
