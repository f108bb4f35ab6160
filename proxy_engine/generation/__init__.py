"""The generation loop: sequences that share forward passes, each under its own mask.

Reading order: ``timings``, ``forward_pass`` and ``output_layer`` (logits on demand),
``restrictions``, ``constraint`` (what restricts a sequence), ``sequence_samplers``,
``sampling`` (the next token), ``batch_rows`` (a cache, and the texts that have rows in it),
``sequence`` (a text of the batch), ``prefill``, ``batch`` (the loop), ``generate_step`` (the loop
as a plain generator). Policies about tokens: ``step`` (sampled and drafted tokens),
``fast_forward`` (forced text), ``exact_choices``,
``speculation`` (drafts).
"""

from .batch import Batch as Batch
from .constraint import Constraint as Constraint
from .fast_forward import FastForward as FastForward
from .fast_forward import Script as Script
from .forward_pass import ForwardPass as ForwardPass
from .model_checks import ModelChecks as ModelChecks
from .prefill import Prefill as Prefill
from .restrictions import Deadline as Deadline
from .restrictions import GuardedGrammar as GuardedGrammar
from .restrictions import MinTokens as MinTokens
from .restrictions import PartLimits as PartLimits
from .restrictions import RepetitionStop as RepetitionStop
from .restrictions import Restriction as Restriction
from .sampling import DeviceMasks as DeviceMasks
from .sampling import ReportedLogprobs as ReportedLogprobs
from .sampling import Token as Token
from .sampling import end_token_ids as end_token_ids
from .sampling import text_token_mask as text_token_mask
from .sequence import GeneratedSequence as GeneratedSequence
from .sequence import Status as Status
from .sequence_samplers import SamplingHooks as SamplingHooks
from .sequence_samplers import SequenceSamplers as SequenceSamplers
from .sequence_samplers import xtc_special_tokens as xtc_special_tokens
from .speculation.draft_length import StepCosts as StepCosts
from .speculation.draft_model import ModelDrafter as ModelDrafter
from .speculation.drafting import Drafting as Drafting
from .timings import Timings as Timings
