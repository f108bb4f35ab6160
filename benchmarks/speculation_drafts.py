"""A draft model half as deep, whose tokens agree with the script at a given rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, cast
from zlib import crc32

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm import stream_generate
from scripted_model import Script, ScriptedModel
from speculation_runs import OFF, extra_stacks, off_stack, passes_record, ratio_record, write_tasks
from speculation_tasks import Task, make_tasks
from stacks import GREEDY, UNSEEDED, Request, Sampling, Setting, Written
from stacks.ours import OurStack
from stacks.streaming import first_of, sampler_of
from subject import Subject

from proxy_engine import SpeculationOptions, Usage

__all__ = ["AGREEMENT", "ScriptedDraftModel", "draft_model", "draft_tasks", "half_as_deep"]

AGREEMENT = 0.8
_SETS = ("copied", "paraphrased", "free string")
_FIXED_TOKENS = 4
_FIXED = f"ours, {_FIXED_TOKENS} draft tokens"
"""A fixed number; the default follows the acceptance and the cost of passes."""
_PEER_TOKENS = (2, 4)
"""Draft tokens of mlx-lm: its default, and more."""


class ScriptedDraftModel(ScriptedModel):
    """A scripted model that writes another token at some positions, each with one seed."""

    def follow(self, script: Script | None, prompt_ids: Sequence[int] = (), name: str = "") -> None:
        """Write a version of ``script`` with other tokens at positions that ``name`` selects."""
        deviating = None
        if script is not None:
            deviating = script.deviating(AGREEMENT, seed=crc32(name.encode()))
        super().follow(deviating, prompt_ids)


class _PeerWithDrafts:
    """mlx-lm's own speculative decoding, without a constraint."""

    def __init__(self, setting: Setting, draft: Module, draft_tokens: int) -> None:
        self.version = "mlx-lm"
        self._setting = setting
        self._draft = draft
        self._draft_tokens = draft_tokens

    def write(self, request: Request) -> Written:
        started = perf_counter()
        first = 0.0
        texts = []
        drafted = accepted = passes = tokens = 0
        for response in self._stream(request):
            first = first or perf_counter()
            texts.append(response.text)
            # The last response repeats the token that ended the text.
            if response.finish_reason is None or response.generation_tokens > tokens:
                accepted += response.from_draft
                passes += not response.from_draft
            tokens = response.generation_tokens
        ended = perf_counter()
        mx.synchronize()
        # The pass whose drafts end the text yields no token of the model itself.
        passes += bool(response.from_draft)
        drafted = passes * self._draft_tokens
        usage = Usage(
            len(request.prompt_ids),
            tokens,
            first - started,
            ended - first,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            forward_passes=passes,
        )
        return Written("".join(texts), tokens, ended - started, first - started, usage)

    def first_token(self, request: Request) -> float:
        return first_of(self._stream(request), perf_counter())

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        return True

    def forget(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to free."""

    def _stream(self, request: Request) -> Iterator[Any]:
        stream: Iterator[Any] = stream_generate(
            self._setting.model,
            self._setting.tokenizer,
            request.prompt_ids,
            max_tokens=request.max_tokens,
            sampler=sampler_of(request.sampling),
            draft_model=self._draft,
            num_draft_tokens=self._draft_tokens,
        )
        return stream


def draft_tasks(count: int) -> list[Task]:
    """Return about ``count`` documents of the sets with a schema."""
    each = -(-count // len(_SETS))
    return [task for kind in _SETS for task in make_tasks(kind, each)]


def draft_model(
    subject: Subject,
    tasks: Sequence[Task],
    samplings: Sequence[Sampling] = (GREEDY, UNSEEDED),
    *,
    repeats: int,
) -> Iterator[dict[str, Any]]:
    """Tokens per pass and time with a draft model alone, and of mlx-lm with the same one."""
    setting = Setting(subject.model, subject.tokenizer)
    draft = ScriptedDraftModel(half_as_deep(subject.model.inner), subject.model.token_lengths)
    # Lookups would find what is copied without the draft model.
    settings = {
        "ours, draft model": SpeculationOptions(prompt_lookup=False),
        _FIXED: SpeculationOptions(prompt_lookup=False, num_draft_tokens=_FIXED_TOKENS),
    }
    peers = {
        f"mlx-lm, {tokens} draft tokens": _PeerWithDrafts(setting, draft, tokens)
        for tokens in _PEER_TOKENS
    }
    own = {
        name: OurStack(setting, speculation=options, draft_model=draft)
        for name, options in settings.items()
    }
    own[OFF] = off_stack(subject)
    with extra_stacks(subject, {**own, **peers}):
        for sampling in samplings:
            stacks = ["mlx-lm", *own, *peers]
            runs = write_tasks(subject, tasks, sampling, repeats, stacks=stacks, draft_model=draft)
            yield from _figures(runs, tasks, sampling.name, peers)
            for (stack, name), reason in runs.failures.items():
                yield {"failure": "draft model", "stack": stack, "document": name} | {
                    "reason": reason
                }


def _figures(
    runs: Any, tasks: Sequence[Task], sampling: str, peers: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    facts = {"set": "draft model", "sampling": sampling, "agreement": AGREEMENT, "of": len(tasks)}
    pairs = [
        (stack, other)
        for stack in ("ours, draft model", _FIXED)
        for other in (OFF, "mlx-lm", *peers)
    ]
    pairs += [(peer, "mlx-lm") for peer in peers]
    for stack, other in pairs:
        shared = runs.shared(tasks, stack, other)
        if shared:
            yield {
                "figure": "speculation",
                **facts,
                "schemas": "known",
                "stack": stack,
                "against": other,
                "documents": len(shared),
                **ratio_record(runs, stack, other, shared, "known"),
            }
    for stack in ("ours, draft model", _FIXED, OFF, *peers):
        shared = runs.shared(tasks, stack)
        yield {"figure": "forward passes", **facts, "stack": stack} | passes_record(
            runs, stack, shared
        )


def half_as_deep(model: Any) -> Module:
    """Return a model with the first half of the layers; it shares their weights."""
    layers = model.args.num_hidden_layers // 2
    changed: dict[str, Any] = {"num_hidden_layers": layers}
    if getattr(model.args, "layer_types", None):
        changed["layer_types"] = model.args.layer_types[:layers]
    half: Module = type(model)(dataclasses.replace(model.args, **changed))
    names = {name for name, _ in cast("list[tuple[str, Any]]", tree_flatten(half.parameters()))}
    weights = cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters()))
    half.load_weights([(name, weight) for name, weight in weights if name in names])
    return half
