"""The figures of the end-to-end benchmark, one function each.

A figure is a dict for a JSON file. A figure that cannot be measured raises :class:`SkippedError`
with the reason.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from alternation import ratio_of, rotated, settle
from document_runs import sentence_of
from documents import PASSAGE, Document, passage
from jsonschema.validators import validator_for
from stacks import RefusedRequestError, Request, Sampling
from stacks.ours import OurStack
from subject import Subject

from proxy_engine import OutputValidationError, Usage

__all__ = [
    "SkippedError",
    "batch",
    "completeness",
    "first_tokens",
    "free_strings",
    "shared_prefix",
]

_TOGETHER = 8
_STEPS = 50
_FIELDS = 12


class SkippedError(Exception):
    """A figure that cannot be measured here, or not yet."""


def free_strings(
    subject: Subject, sampling: Sampling, *, tokens: int, repeats: int
) -> Iterator[dict[str, Any]]:
    """Tokens a second inside a string that may be any text, ours beside mlx-lm's free text."""
    script = subject.script(json.dumps(passage(subject.tokenizer, tokens)))
    others = [name for name in ("ours-undrafted", "mlx-lm") if name in subject.stacks]
    speeds: dict[str, list[float]] = {name: [] for name in ("ours", *others)}
    for turn in range(repeats + 1):
        prompt = subject.prompt("Tell a story, as a JSON string.\n")
        request = subject.request(prompt, {"type": "string"}, script.tokens + 64, sampling)
        for name in rotated(speeds, turn):
            settle()
            written = subject.write(name, request, script)
            # The first turn warms caches that a running server has.
            if turn:
                speeds[name].append(1 / written.token_seconds)
    for other in others:
        yield {
            "figure": "free strings",
            "sampling": sampling.name,
            "tokens": script.tokens,
            "against": other,
            "unit": "tokens/s",
            **ratio_of(speeds["ours"], speeds[other]).as_record(),
        }


def first_tokens(
    subject: Subject, documents: Sequence[Document], *, repeats: int
) -> Iterator[dict[str, Any]]:
    """Time until a caller has the first token, summed over documents: schemas are new, or none.

    Without a schema there is what else a first token takes, the prompt above all.
    """
    for figure in ("first token, new schema", "first token, no schema"):
        seconds: dict[tuple[str, str], list[float]] = {}
        failures: dict[tuple[str, str], str] = {}
        has_schema = figure.endswith("new schema")
        stacks = subject.stacks if has_schema else dict.fromkeys(("ours", "mlx-lm"))
        for repeat in range(repeats):
            subject.forget()
            for number, document in enumerate(documents):
                request, script = subject.about(document)
                if not has_schema:
                    request = dataclasses.replace(request, schema=None)
                for stack in rotated(stacks, repeat + number):
                    place = (stack, document.name)
                    if place in failures:
                        continue
                    settle()
                    try:
                        taken = subject.first_token(stack, request, script)
                    except RefusedRequestError as error:
                        failures[place] = sentence_of(error)
                    else:
                        seconds.setdefault(place, []).append(taken)
        for other in stacks:
            shared = [
                document.name
                for document in documents
                if not failures.keys() & {("ours", document.name), (other, document.name)}
            ]
            if shared and other != "ours":
                ours, theirs = (
                    np.sum([seconds[stack, name] for name in shared], axis=0).tolist()
                    for stack in ("ours", other)
                )
                yield {
                    "figure": figure,
                    "documents": len(shared),
                    "against": other,
                    "unit": "s",
                    **ratio_of(ours, theirs).as_record(),
                }
        for (stack, name), reason in failures.items():
            yield {"failure": figure, "stack": stack, "document": name, "reason": reason}


def shared_prefix(subject: Subject, *, prompt_words: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Time to the first token of a prompt that begins, to 80%, like one before it; ours alone."""
    if "cached_tokens" not in {field.name for field in dataclasses.fields(Usage)}:
        raise SkippedError("the engine has no prompt cache yet (usage.cached_tokens)")
    ours = subject.ours
    words = (PASSAGE * (prompt_words // 80 + 1)).split()[:prompt_words]
    shared = " ".join(words[: round(0.8 * len(words))])
    cold: list[float] = []
    warm: list[float] = []
    parts = []
    for _ in range(repeats):
        begin = subject.prompt(shared)
        for seconds, end in ((cold, words[-len(words) // 5 :]), (warm, words[: len(words) // 5])):
            request = subject.request(f"{begin} {' '.join(end)}", None, 1)
            settle()
            result = ours.generate(request)
            seconds.append(result.usage.prompt_seconds)
        parts.append(getattr(result.usage, "cached_tokens", 0) / result.usage.prompt_tokens)
    if not any(parts):
        raise SkippedError("the engine reused nothing of a prompt that was shared to 80%")
    yield {
        "figure": "first token, 80% shared prefix",
        "prompt_tokens": result.usage.prompt_tokens,
        "cached": round(sum(parts) / len(parts), 3),
        "against": "ours, cold",
        "unit": "s",
        **ratio_of(warm, cold).as_record(),
    }


def batch(subject: Subject, *, tokens: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Wall time of eight requests together, beside the same one after the other; ours alone.

    Strings are sampled token by token; most tokens of fields are forced, and as rows write numbers
    of other lengths, they do not stay in step.
    """
    story = {"type": "string", "minLength": tokens, "maxLength": tokens + 8}
    number = {"type": "integer", "minimum": 0, "maximum": 999}
    schemas = {
        "strings": {"story": story},
        "fields": {f"field_{n}": number for n in range(_FIELDS)},
    }
    for kind, properties in schemas.items():
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        most = 8 * tokens + 32 * _FIELDS
        yield from _together(subject, kind, schema, most, repeats)


def _together(
    subject: Subject, kind: str, schema: Any, max_tokens: int, repeats: int
) -> Iterator[dict[str, Any]]:
    ways: dict[str, Callable[[Sequence[Request]], tuple[list[str], float]]] = {
        "batch": lambda requests: subject.ours.write_together(requests),
        "threads": lambda requests: subject.ours.write_in_threads(requests),
        "alone": lambda requests: subject.ours.write_alone(requests),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    equal = dict.fromkeys(ways, 0)
    for repeat in range(repeats):
        prompts = [subject.prompt(f"Tell story number {n}.\n") for n in range(_TOGETHER)]
        requests = [subject.request(prompt, schema, max_tokens) for prompt in prompts]
        texts = {}
        for way in rotated(ways, repeat):
            # Anew, so that nothing of the prompts is known already.
            subject.ours.forget()
            subject.ours.generate(subject.request("Begin.", schema, max_tokens))
            settle()
            texts[way], taken = ways[way](requests)
            seconds[way].append(taken)
        for way in ways:
            equal[way] += sum(a == b for a, b in zip(texts[way], texts["alone"], strict=True))
    for way in ("batch", "threads"):
        yield {
            "figure": f"{_TOGETHER} requests together",
            "way": way,
            "kind": kind,
            "equal_texts": equal[way],
            "of": repeats * _TOGETHER,
            "against": f"ours, {_TOGETHER} x single",
            "unit": "s",
            **ratio_of(seconds[way], seconds["alone"]).as_record(),
        }


def completeness(
    subject: Subject, documents: Sequence[Document], samplings: Sequence[Sampling]
) -> Iterator[dict[str, Any]]:
    """Count outputs that are complete and valid with few tokens.

    The model generates freely. ``max_tokens`` is the minimum, each number up to 50 more, and ten
    random numbers of the next 200.
    """
    ours = subject.ours
    prompt = subject.prompt("Write some JSON.\n")
    # Of no tokenizer's tokens one has all of this.
    if ours.takes(subject.request(prompt, {"const": PASSAGE}, 1)):
        raise SkippedError("the engine does not refuse what cannot be whole within max_tokens")
    outcomes = {"whole": 0, "refused": 0, "invalid": 0}
    least = {}
    for document in documents:
        is_valid = validator_for(document.schema)(document.schema).is_valid
        fewest = _fewest(ours, subject.request(prompt, document.schema, 1))
        least[document.name] = fewest
        draw = random.Random(document.name)
        budgets = [fewest + step for step in range(_STEPS + 1)]
        budgets += [fewest + draw.randrange(_STEPS, 5 * _STEPS) for _ in range(10)]
        for number, budget in enumerate(budgets):
            sampling = samplings[number % len(samplings)]
            request = subject.request(prompt, document.schema, budget, sampling)
            try:
                result = ours.generate(request)
            except RefusedRequestError:
                outcomes["refused"] += 1
            except OutputValidationError:
                outcomes["invalid"] += 1
            else:
                fits = result.usage.completion_tokens <= budget
                good = fits and is_valid(json.loads(result.text))
                outcomes["whole" if good else "invalid"] += 1
    total = sum(outcomes.values())
    yield {
        "figure": "whole within max_tokens",
        "against": "",
        "unit": "",
        "value": outcomes["whole"] / total,
        "of": total,
        "fewest_tokens": least,
        **outcomes,
    }


def _fewest(ours: OurStack, request: Request) -> int:
    """Return the smallest ``max_tokens`` that is not refused at once."""
    if ours.takes(request):
        return 1
    refused, admitted = 1, 2
    while not ours.takes(dataclasses.replace(request, max_tokens=admitted)):
        refused, admitted = admitted, 2 * admitted
        if admitted > 4096:
            raise SkippedError(f"the engine refuses a schema altogether: {request.schema}")
    while admitted - refused > 1:
        middle = (refused + admitted) // 2
        if ours.takes(dataclasses.replace(request, max_tokens=middle)):
            admitted = middle
        else:
            refused = middle
    return admitted
