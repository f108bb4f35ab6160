"""The generation loop: sequences that share forward passes, each under its own mask.

Reading order: ``tokens``, ``timings``, ``output_layer``, ``forward_pass`` (logits on demand),
``device_masks``, ``fast_forward`` (forced text),
``custom_sampler`` (the caller's functions), ``sampler_schedule`` (samplers and limits by part),
``token_weights`` (importance weights), ``sequence_options``, ``sequence_state``, ``particles``
(sequential Monte Carlo),
``cache_layers`` (caches of a batch),
``prefill``, ``model_checks`` (passes that a model computes correctly), ``batch_rows`` (rows of
the cache), ``drafts``, ``draft_model``, ``drafting`` (the drafters of a sequence),
``verification``, ``batch`` (the loop), ``wired_memory``, ``generate_step`` (the loop as a plain
generator).
"""

from .batch import Batch, Step
from .cache_layers import extract_kv_row
from .custom_sampler import LogitsProcessor, LogprobsSampler, SamplingHooks
from .device_masks import DeviceMasks, text_token_mask
from .draft_model import DraftModel
from .drafting import Drafting
from .fast_forward import FastForward, text_encoder
from .forward_pass import ForwardPass, NextLogits
from .model_checks import ModelChecks
from .pass_cost import device_pass_cost
from .prefill import (
    Prefill,
    can_join_prefill,
    default_prefill_step_size,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)
from .sampler_schedule import Deadline, SamplerSchedule
from .sequence_options import SequenceOptions, end_token_ids, xtc_special_tokens
from .sequence_state import SequenceState
from .timings import Timings
from .tokens import SampledToken, Token
from .wired_memory import clear_cache, model_bytes, wired_memory

__all__ = [
    "Batch",
    "Deadline",
    "DeviceMasks",
    "DraftModel",
    "Drafting",
    "FastForward",
    "ForwardPass",
    "LogitsProcessor",
    "LogprobsSampler",
    "ModelChecks",
    "NextLogits",
    "Prefill",
    "SampledToken",
    "SamplerSchedule",
    "SamplingHooks",
    "SequenceOptions",
    "SequenceState",
    "Step",
    "Timings",
    "Token",
    "can_join_prefill",
    "clear_cache",
    "default_prefill_step_size",
    "device_pass_cost",
    "end_token_ids",
    "extract_kv_row",
    "is_joint_prefill_worthwhile",
    "joint_prefill_tokens",
    "model_bytes",
    "prefill_together",
    "text_encoder",
    "text_token_mask",
    "wired_memory",
    "xtc_special_tokens",
]
