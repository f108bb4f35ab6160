"""Extraction on a cluster of Ray, from datasets and from files, with one engine in each actor.

::

    import ray
    from proxy_engine.integrations.ray import extract

    tickets = ray.data.read_parquet("s3://bucket/tickets")
    extract(tickets, Ticket, text="body", concurrency=4).write_parquet("s3://bucket/extracted")
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack, cast

from state_machines import JsonSchemaStateMachine, StateMachine
from state_machines.errors import ProxyError

from ...checks import argument_names, check_names, reusable, short_repr
from ...errors import EngineError, InvalidOptionError, InvalidResponseFormatError, OutputFileError
from ...extraction.options import ExtractionOptions
from ...extraction.outcomes import check_one_answer
from ...extraction.records import Field, Instruction, RecordReader
from ...extraction.run import extraction_of
from ...models.load_options import LoadArguments, LoadOptions
from ...options.fields import list_options, option_defaults
from ...options.generation import GenerationOptions
from ...options.overrides import OptionOverrides
from ...prompt_cache import CacheOptions
from ...runtime.extras import requires_extra
from .actors import LOADING, ActorSettings, TableActor, check_columns, engine_arguments
from .files import Counts, FileActor, Location, OutputGroup

with requires_extra("ray", purpose="An extraction on Ray"):
    import ray
    from ray import cloudpickle
    from ray.data import ActorPoolStrategy, Dataset
    from ray.util import ActorPool

_ROWS_PER_CALL = 32
"""Rows of a call of an actor, for each request that the engine runs at a time."""
_CALLS = 2
"""Calls that an actor runs at a time. While the last rows of one finish, those of the next join
the batch of the engine."""
_MAX_RETRIES = 3
"""How often a part is repeated if its actors die."""


class ExtractArguments(OptionOverrides, LoadArguments, total=False):
    """The options of requests and of loading the model, as keyword arguments."""


def extract(
    dataset: Dataset,
    schema: Any,
    *,
    model: str | os.PathLike[str] | None = None,
    text: Field = "text",
    image: Field | None = None,
    instruction: Instruction | None = None,
    prefix: str = "",
    retry_cut_short: bool = True,
    concurrency: int | tuple[int, int] = 1,
    batch_size: int = 8,
    draft_model: str | os.PathLike[str] | None = None,
    num_draft_tokens: int | None = None,
    cache: CacheOptions | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    resources: Mapping[str, float] | None = None,
    **arguments: Unpack[ExtractArguments],
) -> Dataset:
    """Extract an answer from each row of a dataset, with one engine in each actor.

    The result is lazy, as all datasets of Ray. It has the columns of the input, a column for each
    property of the answers, the columns ``cut_short`` and ``cut_short_at``, and a column ``error``
    with texts, as the frames of ``InferenceEngine.extract``. The types of the added columns follow
    from the schema alone: objects with no further properties are structs; other values without a
    type, such as unions of numbers and texts, are texts with JSON; dates are texts.

    A row that fails has an error and affects no others. If an actor dies, Ray starts another one
    and repeats the blocks that were not finished. Rows have no fixed order.

    Args:
        dataset: The dataset.
        schema: A pydantic model, another type, or a JSON Schema.
        model: A directory that all machines have, or a Hugging Face repo id. Default: the embedded
            model.
        text: The column with the text, or a function of the row, a dict.
        image: The column with an image, or a function of the row; see ``InferenceEngine.extract``.
        instruction: The text that precedes a row's text in its prompt, or a function of the row.
        prefix: Text before the names of the result's columns.
        retry_cut_short: Whether an answer that ``max_tokens`` cuts short is tried once more with
            twice as many tokens.
        concurrency: Number of actors, or the smallest and the largest number.
        batch_size: Maximum number of rows in each forward pass of an engine.
        draft_model: A smaller model, which drafts tokens; see ``InferenceEngine``.
        num_draft_tokens: Number of tokens that the draft model drafts for each forward pass.
        cache: Options of prompt caching.
        num_cpus: CPUs that Ray reserves for each actor; default 1.
        num_gpus: GPUs that Ray reserves for each actor; default none.
        memory: Bytes of memory that Ray reserves for each actor.
        resources: Custom resources that Ray reserves for each actor, by name.
        **arguments: The options of ``GenerationOptions`` and ``LoadOptions``.

    Raises:
        InvalidOptionError: An argument is invalid, a column is missing, or a column of the result
            has the name of a column of the dataset. If the dataset's columns are not known before
            it runs, the actor raises it.
        InvalidResponseFormatError: The schema is of none of the accepted kinds.
        SchemaError: The JSON Schema is refused.
    """
    loading = {name: value for name, value in arguments.items() if name in LOADING}
    engine = engine_arguments(
        model,
        {
            "batch_size": batch_size,
            "draft_model": draft_model,
            "num_draft_tokens": num_draft_tokens,
            "cache": cache,
            **loading,
        },
    )
    options = options_of_requests(arguments)
    extraction = ExtractionOptions.of(
        {"instruction": instruction, "prefix": prefix, "retry_cut_short": retry_cut_short}
    )
    settings = actor_settings(
        ActorSettings(schema, RecordReader(text, image), extraction, engine, options)
    )
    columns = dataset.columns(fetch_if_missing=False)
    if columns is not None:
        answers = extraction_of(schema, extraction, options).answers
        check_columns(settings.reader, answers, columns)
    return dataset.map_batches(
        cast(Any, TableActor),
        fn_constructor_args=(settings,),
        batch_format="pyarrow",
        batch_size=_ROWS_PER_CALL * batch_size,
        compute=actor_pool(concurrency, calls=_CALLS),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        resources=None if resources is None else dict(resources),
    )


list_options(extract, lambda: (ExtractArguments, option_defaults(GenerationOptions, LoadOptions)))


def actor_settings(settings: ActorSettings) -> ActorSettings:
    """Check what actors receive, and return it. Compiles the schema, without a model.

    Raises:
        InvalidOptionError: It cannot be sent to another process.
        InvalidResponseFormatError: The schema is of none of the accepted kinds.
        SchemaError: The JSON Schema is refused.
    """
    if isinstance(settings.response_format, StateMachine):
        raise InvalidResponseFormatError(
            "state machines cannot be sent to other processes",
            hint="Give a JSON Schema or a type, such as Annotated[str, Field(pattern=...)].",
        )
    answers = extraction_of(settings.response_format, settings.extraction, settings.options).answers
    if not answers.has_quotes:
        JsonSchemaStateMachine(answers.schema)
    try:
        cloudpickle.dumps(settings)
    except Exception as error:
        # Objects of the caller may raise anything.
        raise InvalidOptionError(
            f"the arguments cannot be sent to actors: {type(error).__name__}: {error}",
            option="schema",
            hint="Define types and functions at the top of a module.",
        ) from error
    return settings


def options_of_requests(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of requests among the arguments.

    Raises:
        InvalidOptionError: An option is unknown, its value is invalid, or ``n`` is above 1.
    """
    known = [*argument_names(GenerationOptions), *LOADING]
    check_names(arguments, known)
    options = reusable({name: arguments[name] for name in arguments if name not in LOADING})
    check_one_answer(GenerationOptions().override(options))
    return options


def actor_pool(concurrency: Any, *, calls: int) -> ActorPoolStrategy:
    """Return the pool of actors of an operation.

    Args:
        concurrency: The number of actors, or the smallest and the largest number.
        calls: The number of calls that an actor runs at a time.

    Raises:
        InvalidOptionError: The number is invalid.
    """
    try:
        smallest, largest = (
            concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
        )
        return ActorPoolStrategy(
            min_size=smallest,
            max_size=largest,
            max_concurrent_calls_per_actor=calls,
            max_tasks_in_flight_per_actor=calls,
            enable_true_multi_threading=True,
        )
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            "concurrency should be a number of actors of at least 1, or a pair of these, not "
            f"{short_repr(concurrency)}",
            option="concurrency",
        ) from error


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a cluster, unless the process is connected to one.

    Args:
        address: The address of a cluster. ``"auto"`` is the cluster of ``RAY_ADDRESS`` or of this
            machine, or a new one on this machine, which ends with the run.

    Raises:
        EngineError: There is no such cluster.
    """
    if ray.is_initialized():
        yield
        return
    # The settings are those of the command's process.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray.init(
            None if address == "auto" else address,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"cannot connect to Ray at {address!r}: {error}",
            hint="--ray auto uses the cluster of this machine, or starts one.",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def run_parts(
    settings: ActorSettings,
    source: Location,
    output: Location,
    parts: list[OutputGroup],
    *,
    concurrency: int = 1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
) -> Iterator[Counts]:
    """Extract from parts, and yield the counts of each as it is finished.

    If an actor dies, Ray starts another one, which continues its part.

    Args:
        settings: The settings of the run.
        source: The input.
        output: The output directory.
        parts: The parts that are left.
        concurrency: The number of actors.
        num_cpus: CPUs that Ray reserves for each actor; ``None`` for one.
        num_gpus: GPUs that Ray reserves for each actor; ``None`` for none.

    Raises:
        ProxyError: As an actor raised it. Parts that are finished are kept.
        OutputFileError: Parts are not finished: their actors have died repeatedly.
    """
    remote = ray.remote(
        max_restarts=-1, max_task_retries=_MAX_RETRIES, num_cpus=num_cpus or 1, num_gpus=num_gpus
    )(FileActor)
    count = min(concurrency, len(parts))
    pool = ActorPool([remote.remote(settings, source, output) for _ in range(count)])
    for part in parts:
        pool.submit(lambda actor, given: actor.extract.remote(given), part)
    reasons = []
    while pool.has_next():
        try:
            outcome = pool.get_next_unordered()
        except ray.exceptions.RayError as error:
            # The last line is the reason; before it is a stack trace.
            reasons.append(str(error).strip().rpartition("\n")[2])
            continue
        if isinstance(outcome, ProxyError):
            raise outcome
        yield outcome
    if reasons:
        raise OutputFileError(
            f"{len(reasons)} of {len(parts)} parts are not finished: {reasons[0]}",
            path=output.shown,
            hint="Run the same command with --resume. All machines must share a local directory.",
        )
