"""Checks of a request's options against the model, the answer and each other.

Each option alone is checked where ``GenerationOptions`` is built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from samplers import SamplingParameters
from state_machines import Vocabulary
from state_machines.quotes import source_names
from state_machines.root import Text, part_names
from state_machines.tool_calls.call import CALL

from ..answers.compiler import STRUCTURED
from ..answers.composition import REASONING, TEXT
from ..answers.response_format import ResponseFormat
from ..checks import suggestion
from ..errors import InvalidOptionError, PromptError
from ..generation import SamplingHooks
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..tools import Tool, ToolChoice


def tool_sources(tools: Iterable[Tool]) -> set[str]:
    """Return the names of the sources that the parameters of tools are quoted from."""
    return {name for tool in tools for name in source_names(tool.parameters)}


def check_tokens(options: GenerationOptions, vocabulary: Vocabulary) -> None:
    """Raise for tokens that the model does not have.

    Args:
        options: The options.
        vocabulary: The model's vocabulary.
    """
    bias = [pair for sampling in _samplings(options) for pair in sampling.bias_pairs]
    named = {"stop_token_ids": options.stop_ids, "logit_bias": [token_id for token_id, _ in bias]}
    for name, token_ids in named.items():
        token_id = max(token_ids, default=0)
        if token_id >= vocabulary.size:
            raise InvalidOptionError(
                f"{name} names token {token_id}; the model has {vocabulary.size}", option=name
            )


def check_sampling(
    options: GenerationOptions, overrides: OptionOverrides, hooks: SamplingHooks
) -> None:
    """Raise for ways of sampling that cannot be combined.

    Args:
        options: The options.
        overrides: The options of the request.
        hooks: The caller's functions for sampling.
    """
    if overrides.get("max_retries") and options.n > 1:
        raise InvalidOptionError(
            "max_retries is for requests with one answer", option="max_retries"
        )
    if hooks.sampler is not None:
        names = [name for name in overrides if name in SamplingParameters.model_fields]
        if any(part.model_fields_set - {"max_tokens"} for part in options.parts.values()):
            names.append("parts")
        if names:
            raise InvalidOptionError(
                f"{names[0]} has no effect beside a sampler, which selects the tokens",
                option=names[0],
                hint="Apply it in the sampler.",
            )
    changes = {
        "sampler": hooks.sampler is not None,
        "logits_processors": bool(hooks.logits_processors),
        "xtc_probability": any(sampling.has_xtc for sampling in _samplings(options)),
    }
    name = next((name for name, is_set in changes.items() if is_set), None)
    if name is not None and options.exact_choices:
        raise InvalidOptionError(
            f"exact_choices draws from the model's own distribution, which {name} changes",
            option=name,
            hint=f"Leave out exact_choices or {name}.",
        )


def check_answer_options(
    overrides: OptionOverrides,
    response: ResponseFormat,
    tools: Collection[Tool],
    choice: ToolChoice,
    *,
    has_messages: bool,
) -> None:
    """Raise for options without an effect on the prompt or the answer.

    Args:
        overrides: The options of the request.
        response: The response format.
        tools: The tools that the prompt describes.
        choice: The tools that may be called.
        has_messages: Whether the prompt is a conversation.
    """
    if overrides.get("freeform_first"):
        if not has_messages:
            raise PromptError("a raw prompt has no turns for a freeform answer; give messages")
        # A loop of tools ends with an answer that may not call them.
        if response.is_free and not tools:
            raise InvalidOptionError(
                "freeform_first has no effect on an answer without a response format and tools",
                option="freeform_first",
                hint="Leave it out, or give a response format.",
            )
    describes_schema = overrides.get("schema_in_prompt", "auto") not in ("auto", "off")
    if not has_messages and (tools or describes_schema):
        what = "tools" if tools else "the schema"
        raise PromptError(f"a raw prompt cannot describe {what}; give messages")
    composed = () if response.part is None else part_names(response.part)
    known = dict.fromkeys((TEXT, REASONING, STRUCTURED, CALL, *composed))
    for name in overrides.get("parts", {}):
        if name not in known:
            raise InvalidOptionError(
                f"parts names {name!r}, which is not a part of the answer",
                option="parts",
                hint=f"Known are {', '.join(map(repr, known))}.",
            )
    if overrides.get("max_retries") and response.part is not None:
        raise InvalidOptionError(
            "max_retries is for response formats that are types, and for tools",
            option="max_retries",
            hint="Validate the parts of a composition after the request.",
        )
    used = response.sources | tool_sources(tools)
    unused = sorted(set(overrides.get("sources") or ()) - used)
    if unused:
        raise InvalidOptionError(
            f"the response format quotes nothing from the source {unused[0]!r}",
            option="sources",
            hint="Name it in the schema with x-substring-of, or in a pydantic model with "
            "QuoteFrom.",
        )
    repeated = overrides.get("allow_repeated_calls") or ()
    names = [tool.name for tool in tools]
    for name in () if isinstance(repeated, bool) else repeated:
        if names and name not in names:
            raise InvalidOptionError(
                f"allow_repeated_calls names {name!r}, which is no tool",
                option="allow_repeated_calls",
                hint=suggestion(name, names),
            )
    if choice.may_answer and (response.is_free or isinstance(response.part, Text)):
        return
    for option, name in (("stop", "stop strings"), ("stop_token_ids", "stop tokens")):
        if overrides.get(option):
            answer = "a composition of parts" if response.part is not None else "structured"
            answer = answer if choice.may_answer else "a tool call"
            raise InvalidOptionError(
                f"{name} end free text, and the answer is {answer}",
                option=option,
                hint="A composition has the stop strings of its parts: Text(stop=...).",
            )


def _samplings(options: GenerationOptions) -> list[SamplingParameters]:
    """Return the sampling options of the whole answer, then of its parts."""
    return [options, *options.parts.values()]
