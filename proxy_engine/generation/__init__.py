"""The generation loop: sequences that share forward passes, each under its own mask.

Reading order: ``tokens``, ``timings``, ``forward_pass`` and ``output_layer`` (logits on demand),
``limits``, ``constraint`` (the grammar of a sequence, and its next mask), ``sequence_samplers``,
``sampling`` (the next token), ``batch_rows`` (a cache, and the texts that have rows in it),
``sequence`` (a text of the batch), ``prefill``, ``batch`` (the loop), ``generate_step`` (the loop
as a plain generator). Policies about tokens: ``step`` (sampled and drafted tokens), ``lookahead``
(tokens of free texts), ``fast_forward`` (forced text), ``exact_choices``, ``particles``,
``speculation`` (drafts).
"""

from .batch import Batch
from .constraint import Constraint
from .device_masks import DeviceMasks, text_token_mask
from .fast_forward import FastForward
from .forward_pass import ForwardPass
from .limits import Deadline, PartLimits, SequenceOptions, end_token_ids, xtc_special_tokens
from .model_checks import ModelChecks
from .prefill import Prefill
from .sequence import GeneratedSequence
from .sequence_samplers import SamplingHooks, SequenceSamplers
from .speculation.draft_heads import DraftHead, HeadOutput
from .speculation.draft_model import DraftModel
from .speculation.drafting import Drafting
from .speculation.head_drafter import HeadDrafter
from .speculation.model_drafter import ModelDrafter
from .speculation.step_costs import StepCosts
from .timings import Timings
from .tokens import Token
from .wired_memory import clear_cache, model_bytes, wired_memory

__all__ = [
    "Batch",
    "Constraint",
    "Deadline",
    "DeviceMasks",
    "DraftHead",
    "DraftModel",
    "Drafting",
    "FastForward",
    "ForwardPass",
    "GeneratedSequence",
    "HeadDrafter",
    "HeadOutput",
    "ModelChecks",
    "ModelDrafter",
    "PartLimits",
    "Prefill",
    "SamplingHooks",
    "SequenceOptions",
    "SequenceSamplers",
    "StepCosts",
    "Timings",
    "Token",
    "clear_cache",
    "end_token_ids",
    "model_bytes",
    "text_token_mask",
    "wired_memory",
    "xtc_special_tokens",
]
