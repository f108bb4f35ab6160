"""Tokens from a model: rows that are written, one by one or many together, each under its masks.

Reading order: ``tokens`` (what is written, and when), ``forcing`` (text that must come), ``limits``
(how long it may take), ``steering`` (samplers and limits by sub-state), ``device_masks``, ``row``
(one text that is written), ``prompt_reading`` (how it begins), ``joint_reading`` (several prompts
in one pass), ``batch_layers`` (caches of several rows), ``batch_probe`` (checks that a batch gives
the same logits), ``wired_memory``, ``batch`` (the loop).
"""

from .batch import Batch, Step
from .batch_probe import BatchProbe
from .choice import Choice
from .device_masks import DeviceMasks
from .forcing import ForcedTokens, text_encoder
from .joint_reading import (
    are_worth_joining,
    can_be_joined,
    read_together,
    row_layers,
    tokens_of_joint_pass,
)
from .limits import Deadline
from .prompt_reading import PromptReading, prefill_step_size
from .row import Row, RowOptions
from .steering import Steering
from .tokens import Timings, Token
from .wired_memory import model_bytes, wired_memory

__all__ = [
    "Batch",
    "BatchProbe",
    "Choice",
    "Deadline",
    "DeviceMasks",
    "ForcedTokens",
    "PromptReading",
    "Row",
    "RowOptions",
    "Steering",
    "Step",
    "Timings",
    "Token",
    "are_worth_joining",
    "can_be_joined",
    "model_bytes",
    "prefill_step_size",
    "read_together",
    "row_layers",
    "text_encoder",
    "tokens_of_joint_pass",
    "wired_memory",
]
