"""Tokens from a model: sequences that are generated alone or in a batch, each under its own masks.

Reading order: ``tokens`` (a generated token), ``sampled_token``, ``forcing`` (fast-forward tokens),
``limits`` (deadlines), ``sampler_schedule`` (samplers and limits by part), ``device_masks``,
``sequence_state``, ``prefill``, ``joint_prefill`` (several prompts in one pass), ``cache_layers``
(KV caches of a batch), ``batch_probe`` (whether a model computes batches correctly),
``wired_memory``, ``batch`` (the loop).
"""

from .batch import Batch, Step
from .batch_probe import BatchProbe
from .device_masks import DeviceMasks
from .forcing import ForcedTokens, text_encoder
from .joint_prefill import (
    can_join_prefill,
    extract_row,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)
from .limits import Deadline
from .prefill import Prefill, prefill_step_size
from .sampled_token import SampledToken
from .sampler_schedule import SamplerSchedule
from .sequence_state import SequenceOptions, SequenceState
from .tokens import Timings, Token
from .wired_memory import model_bytes, wired_memory

__all__ = [
    "Batch",
    "BatchProbe",
    "Deadline",
    "DeviceMasks",
    "ForcedTokens",
    "Prefill",
    "SampledToken",
    "SamplerSchedule",
    "SequenceOptions",
    "SequenceState",
    "Step",
    "Timings",
    "Token",
    "can_join_prefill",
    "extract_row",
    "is_joint_prefill_worthwhile",
    "joint_prefill_tokens",
    "model_bytes",
    "prefill_step_size",
    "prefill_together",
    "text_encoder",
    "wired_memory",
]
