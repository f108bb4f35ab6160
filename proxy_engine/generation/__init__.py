"""The generation loop: sequences that share forward passes, each under its own mask.

Reading order: ``tokens``, ``timings``, ``device_masks``, ``fast_forward`` (forced text),
``sampler_schedule`` (samplers and limits by part), ``sequence_state``, ``cache_layers`` (caches of
a batch), ``prefill``, ``joint_prefill`` (several prompts in one pass), ``batch_probe`` (whether a
model computes batches correctly), ``batch`` (the loop), ``wired_memory``.
"""

from .batch import Batch, Step
from .batch_probe import BatchProbe
from .cache_layers import extract_kv_row
from .device_masks import DeviceMasks
from .fast_forward import FastForward, text_encoder
from .joint_prefill import (
    can_join_prefill,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)
from .prefill import Prefill, prefill_step_size
from .sampler_schedule import Deadline, SamplerSchedule
from .sequence_state import SequenceOptions, SequenceState
from .timings import Timings
from .tokens import SampledToken, Token
from .wired_memory import model_bytes, wired_memory

__all__ = [
    "Batch",
    "BatchProbe",
    "Deadline",
    "DeviceMasks",
    "FastForward",
    "Prefill",
    "SampledToken",
    "SamplerSchedule",
    "SequenceOptions",
    "SequenceState",
    "Step",
    "Timings",
    "Token",
    "can_join_prefill",
    "extract_kv_row",
    "is_joint_prefill_worthwhile",
    "joint_prefill_tokens",
    "model_bytes",
    "prefill_step_size",
    "prefill_together",
    "text_encoder",
    "wired_memory",
]
