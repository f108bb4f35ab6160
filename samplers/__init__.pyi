"""The public names. ``lazy_loader`` reads their modules from this stub."""

from .draws import sample_rows as sample_rows
from .logprobs import TopLogprobs as TopLogprobs
from .logprobs import log_sum as log_sum
from .logprobs import top_logprobs as top_logprobs
from .parameters import InvalidSamplingParameterError as InvalidSamplingParameterError
from .parameters import SamplingParameters as SamplingParameters
from .sampler import Sampler as Sampler
from .sampler import make_sampler as make_sampler
from .transforms import apply_logit_bias as apply_logit_bias
from .transforms import apply_mask as apply_mask
from .transforms import apply_min_p as apply_min_p
from .transforms import apply_penalties as apply_penalties
from .transforms import apply_temperature as apply_temperature
from .transforms import apply_top_k as apply_top_k
from .transforms import apply_top_p as apply_top_p
from .transforms import apply_xtc as apply_xtc
