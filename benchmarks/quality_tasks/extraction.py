"""Extraction of 3 to 12 fields from a text.

Texts of 3 fields state every value as the answer has it. Longer ones have distractors, units that
the answer converts, dates in words, negations, and fields that the text does not mention (null).
"""

from __future__ import annotations

from random import Random

from quality_tasks.base import Record, listing, object_schema, rng_of
from quality_tasks.extraction_domains import DOMAINS, Domain
from quality_tasks.extraction_facts import Fact
from quality_tasks.words import CITIES, FIRST_NAMES, PRODUCTS

__all__ = ["make_record"]

TASK = "extraction"

_FIELDS = (3, 5, 3, 8, 3, 5, 3, 12)
"""Numbers of fields of consecutive records."""

_MISSING = 0.2
"""Probability that the text does not state a field, in records of more than 3 fields."""


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    rng = rng_of(TASK, seed, number)
    count = _FIELDS[number % len(_FIELDS)]
    is_simple = count == 3
    domain = rng.choice(DOMAINS)
    pool = [fact for fact in domain.facts if fact.is_verbatim or not is_simple]
    # The opening sentence is always there; whether its field is asked for is not a question.
    asked = [domain.opening, *rng.sample(pool, count - 1)]
    missing = {fact.field for fact in asked[1:] if not is_simple and rng.random() < _MISSING}
    gold, sentences = _text(rng, domain, asked, missing)
    example, _ = _text(rng, domain, asked, missing=set())
    schema = object_schema(
        {fact.field: fact.schema if is_simple else fact.nullable_schema for fact in asked}
    )
    advice = "" if is_simple else " Use null for what the text does not say."
    names = listing(fact.named for fact in asked)
    question = f"{' '.join(sentences)}\n\nExtract from this text, as JSON: {names}.{advice}"
    return Record(
        TASK, f"{count} fields", number, question, schema, gold, example, max_tokens=16 + 18 * count
    )


def _text(
    rng: Random, domain: Domain, asked: list[Fact], missing: set[str]
) -> tuple[dict[str, object], list[str]]:
    """Return the values of the fields, and the sentences in the order of the text."""
    gold: dict[str, object] = {}
    sentences = []
    for fact in asked:
        value, sentence = fact.write(rng)
        gold[fact.field] = None if fact.field in missing else value
        if fact.field not in missing:
            sentences.append(sentence)
    first, *others = sentences
    others += [_filled(rng, text) for text in rng.sample(domain.distractors, _distractors(asked))]
    rng.shuffle(others)
    return gold, [first, *others]


def _distractors(asked: list[Fact]) -> int:
    if len(asked) == 3:
        return 0
    return 1 if len(asked) < 12 else 2


def _filled(rng: Random, template: str) -> str:
    return template.format(
        name=rng.choice(FIRST_NAMES),
        city=rng.choice(CITIES),
        product=rng.choice(PRODUCTS),
        n=rng.randint(20, 80),
    )
