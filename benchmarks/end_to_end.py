"""Measure whole requests with a model, beside mlx-lm alone and with other engines' masks.

See ``README.md`` beside this file. Code in reading order: ``stacks`` (one adapter each),
``scripted_model`` (the same text for all), ``documents`` (the texts), ``subject`` (a model and its
stacks), ``end_to_end_measures`` and ``document_runs`` (the figures), ``overlap`` and
``overlap_measure`` (one request, step by step), ``end_to_end_tables`` (printed tables);
``speculation_tasks`` and ``speculation_*`` (drafts).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from arguments import environment, named_tokenizer, positive
from document_runs import extraction, overhead
from documents import EACH, Document, choose, free_string
from end_to_end_measures import (
    SkippedError,
    batch,
    completeness,
    first_tokens,
    free_strings,
    shared_prefix,
)
from end_to_end_tables import render
from overlap_measure import hidden, trace
from random_models import size
from records import write_record
from speculation_batches import batches_of_tasks, speculation_batches
from speculation_drafts import draft_model, draft_tasks
from speculation_own_text import own_text
from speculation_runs import speculation
from speculation_tasks import EACH as TASKS
from speculation_tasks import SETS, make_tasks
from stacks import GREEDY, SEEDED, STACKS, Sampling
from subject import Subject, embedded_subject, random_subject

from proxy_engine.runtime.blas import has_fast_blas
from state_machines.masks.kernel import KERNEL

__all__ = ["DRAFT_FIGURES", "FIGURES", "main"]

FIGURES = ("strings", "extraction", "first", "prefix", "batch", "whole", "overhead")
DRAFT_FIGURES = ("speculation", "speculation-batch", "draft-model", "own-text")
"""Figures with documents of their own, left out by default."""

_STRING_TOKENS = 64
_SLOW_TO_COMPILE = ("outlines",)
"""Left out of figures per token: it takes longer to compile a schema than to write its tokens."""

_SAMPLINGS = {sampling.name: sampling for sampling in (GREEDY, SEEDED)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.data is None and (options.trace or set(options.figures) - set(DRAFT_FIGURES)):
        parser.error(f"--data is required, except for --figures {','.join(DRAFT_FIGURES)}")
    run = _Run(options)
    try:
        subject = _subject(options.model, options, options.stacks)
    except ImportError as error:
        print(f"a stack is not installed: {error}", file=sys.stderr)
        return 1
    with _frozen():
        documents: list[Document] = []
        if options.data is not None:
            documents = choose(options.data, subject.can_write, each=options.documents)
        run.begin(subject, documents)
        _measure(run, subject, documents, options)
        for name, measure in _draft_measures(subject, options).items():
            if name in options.figures:
                run.add(subject, name, "speculation", measure)
    subject.close()
    for number, chosen in enumerate(options.sizes if set(options.figures) & set(FIGURES) else []):
        stacks = [name for name in options.stacks if name not in _SLOW_TO_COMPILE]
        other = _subject(chosen, options, stacks)
        with _frozen():
            _measure_size(run, other, documents, options, is_first=number == 0)
        other.close()
    print(render(run.report))
    return 0


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Freeze existing objects, so that garbage collections between runs are short."""
    is_first = not gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        # The tests have frozen all that they import.
        if is_first:
            gc.unfreeze()


def _measure(
    run: _Run, subject: Subject, documents: Sequence[Document], options: argparse.Namespace
) -> None:
    for name, measure in _measures(subject, documents, options).items():
        if name in options.figures:
            run.add(subject, name, "figures", measure)
    if documents and not options.sizes:
        _measure_whole(run, subject, documents, options)
    if options.trace:
        # Most tokens of these documents are sampled under distinct masks.
        texts = [document for document in documents if document.kind == "text"]
        run.trace(subject, (texts or documents)[0], options)


def _measures(
    subject: Subject, documents: Sequence[Document], options: argparse.Namespace
) -> dict[str, Callable[[], Iterator[dict[str, Any]]]]:
    repeats = options.repeats
    samplings: list[Sampling] = options.samplings

    def strings() -> Iterator[dict[str, Any]]:
        for sampling in samplings:
            # Short runs whose ratio is closest to 1, so they are repeated more often.
            yield from free_strings(subject, sampling, tokens=options.tokens, repeats=3 * repeats)

    def documents_written() -> Iterator[dict[str, Any]]:
        for sampling in samplings:
            yield from extraction(subject, documents, sampling, repeats=repeats)

    return {
        "strings": strings,
        "extraction": documents_written,
        "first": lambda: first_tokens(subject, documents, repeats=repeats),
        "prefix": lambda: shared_prefix(subject, prompt_words=options.tokens, repeats=repeats),
        "batch": lambda: batch(subject, tokens=options.tokens // 4, repeats=repeats),
    }


def _draft_measures(
    subject: Subject, options: argparse.Namespace
) -> dict[str, Callable[[], Iterator[dict[str, Any]]]]:
    repeats, count = options.repeats, options.tasks
    tasks = {kind: make_tasks(kind, count) for kind in options.sets}

    def sets() -> Iterator[dict[str, Any]]:
        for sampling in options.samplings:
            yield from speculation(subject, sampling, repeats=repeats, sets=tasks)

    return {
        "speculation": sets,
        "speculation-batch": lambda: speculation_batches(
            subject, batches_of_tasks(), repeats=repeats
        ),
        "draft-model": lambda: draft_model(subject, draft_tasks(count), repeats=repeats),
        "own-text": lambda: own_text(subject, repeats=repeats, each=count),
    }


def _measure_size(
    run: _Run,
    subject: Subject,
    documents: Sequence[Document],
    options: argparse.Namespace,
    *,
    is_first: bool,
) -> None:
    """Measure a model with the first document of each kind that its tokenizer can spell.

    And with a string.
    """
    run.report["models"].append(subject.facts())
    spelled = [document for document in documents if subject.can_write(document)]
    if is_first:
        _measure_whole(run, subject, spelled, options)
    if "overhead" in options.figures:
        firsts = list({document.kind: document for document in reversed(spelled)}.values())
        firsts.append(free_string(subject.tokenizer, _STRING_TOKENS))
        run.add(
            subject,
            "overhead",
            "overhead",
            lambda: overhead(subject, firsts, repeats=options.repeats),
        )


def _measure_whole(
    run: _Run, subject: Subject, documents: Sequence[Document], options: argparse.Namespace
) -> None:
    if "whole" in options.figures:
        run.add(
            subject,
            "whole",
            "figures",
            lambda: completeness(subject, documents, options.samplings),
        )


class _Run:
    """The report as it grows; written after each figure, so that an interrupted run leaves some."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._file: Path | None = options.json
        self.report: dict[str, Any] = {
            "environment": {
                **environment(),
                "device": str(mx.default_device()),
                "fast_blas": has_fast_blas(),
                "compiled_loop": KERNEL is not None,
                "mlx": version("mlx"),
                "data": options.data.name if options.data else None,
            },
            "stacks": {},
            "models": [],
            "documents": [],
            "figures": [],
            "overhead": [],
            "speculation": [],
            "failures": [],
            "skipped": [],
        }

    def begin(self, subject: Subject, documents: Sequence[Document]) -> None:
        """Print the stacks, models and versions."""
        self.report["stacks"] = {name: stack.version for name, stack in subject.stacks.items()}
        self.report["models"].append(subject.facts())
        self.report["documents"] = [
            {
                "name": document.name,
                "kind": document.kind,
                "characters": len(document.text),
                "tokens": subject.script(document.text).tokens,
            }
            for document in documents
        ]

    def add(
        self,
        subject: Subject,
        name: str,
        place: str,
        measure: Callable[[], Iterator[dict[str, Any]]],
    ) -> None:
        """Measure a figure, and keep what came of it."""
        print(f"{subject.name}: {name}", file=sys.stderr, flush=True)
        try:
            for figure in measure():
                where = "failures" if "failure" in figure else place
                self.report[where].append({"model": subject.name, **figure})
                self._write()
        except SkippedError as error:
            skipped = {"model": subject.name, "figure": name, "reason": str(error)}
            self.report["skipped"].append(skipped)
        self._write()

    def _write(self) -> None:
        if self._file:
            write_record(self._file, self.report)

    def trace(self, subject: Subject, document: Document, options: argparse.Namespace) -> None:
        """Write the trace of one request, and the hidden share of slower masks."""
        print(f"{subject.name}: trace", file=sys.stderr, flush=True)
        traced = trace(subject, document)
        delay = hidden(subject, tokens=options.tokens // 2, repeats=options.repeats)
        record = {"environment": self.report["environment"], **traced, "slower_masks": delay}
        write_record(options.trace, record)


def _subject(name: str, options: argparse.Namespace, stacks: Sequence[str]) -> Subject:
    if name == "embedded":
        return embedded_subject(stacks)
    return random_subject(size(name), options.tokenizer, stacks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="end_to_end.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="MaskBench cases (.jsonl.gz)")
    parser.add_argument(
        "--model",
        type=_model,
        default="embedded",
        help="of the figures with targets: embedded, or LAYERSxWIDTH of random weights (embedded)",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default="2x32,2x64,4x128,8x256,8x384,8x512",
        metavar="LAYERSxWIDTH,...",
        help="random models whose overhead per token is measured (%(default)s)",
    )
    parser.add_argument(
        "--tokenizer",
        type=named_tokenizer,
        metavar="[NAME=]FILE",
        help="a tokenizer.json for random models (the embedded model's)",
    )
    parser.add_argument(
        "--stacks",
        type=_names(STACKS),
        default=["ours", "mlx-lm", "llguidance"],
        help=f"comma-separated, of {', '.join(STACKS)} (ours, mlx-lm, llguidance)",
    )
    parser.add_argument(
        "--figures",
        type=_names((*FIGURES, *DRAFT_FIGURES)),
        default=FIGURES,
        help=f"of {', '.join(FIGURES)} (these), and {', '.join(DRAFT_FIGURES)}",
    )
    parser.add_argument(
        "--samplings",
        type=_samplings,
        default=GREEDY.name,
        help=f"comma-separated, of {', '.join(_SAMPLINGS)} (%(default)s)",
    )
    parser.add_argument("--repeats", type=positive, default=5, help="(%(default)s)")
    parser.add_argument(
        "--documents", type=positive, default=EACH, help="of each kind (%(default)s)"
    )
    parser.add_argument(
        "--sets",
        type=_names(list(SETS)),
        default=list(SETS),
        help=f"of documents for drafts, of {', '.join(SETS)} (all)",
    )
    parser.add_argument(
        "--tasks",
        type=positive,
        default=TASKS,
        help="documents of each set of drafts (%(default)s)",
    )
    parser.add_argument(
        "--tokens", type=positive, default=256, help="in strings and prompts (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--trace", type=Path, help="write the times within one request here")
    return parser


def _model(text: str) -> str:
    if text != "embedded":
        size(text)
    return text


def _sizes(text: str) -> list[str]:
    return [str(size(part)) for part in text.split(",") if part]


def _names(known: Sequence[str] | dict[str, Any]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r} (of {', '.join(known)})")
        return names

    return read


def _samplings(text: str) -> list[Sampling]:
    return [_SAMPLINGS[name] for name in _names(_SAMPLINGS)(text)]


if __name__ == "__main__":
    sys.exit(main())
