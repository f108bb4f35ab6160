"""Tokens from a model: rows that are written, one by one or many together, each under its masks.

Reading order: ``tokens`` (what is written, and when), ``forcing`` (text that must come), ``limits``
(how long it may take), ``steering`` (samplers and limits by sub-state), ``device_masks``, ``row``
(one text that is written), ``prompt_reading`` (how it begins), ``batch_layers`` (what the model
remembers of many), ``batch_probe`` (whether the model runs in batches), ``batch`` (the loop).
"""

from .batch import Batch, Step
from .batch_probe import BatchProbe
from .choice import Choice
from .device_masks import DeviceMasks
from .forcing import ForcedTokens, text_encoder
from .limits import Deadline
from .prompt_reading import PromptReading, prefill_step_size
from .row import Row, RowOptions
from .steering import Steering
from .tokens import Timings, Token

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
    "prefill_step_size",
    "text_encoder",
]
