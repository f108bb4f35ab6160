"""Quotes from a source: what a person says, or the sentence about a topic, as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from quality_tasks.base import Record, object_schema, rng_of
from quality_tasks.words import CITIES, FIRST_NAMES, MONTHS

__all__ = ["make_record"]

TASK = "quotes"

_SOURCES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "review of a restaurant": {
        "food": (
            "The soup tasted of fresh herbs.",
            "My fish was dry and cold.",
            "The bread came straight from the oven.",
            "We shared {n} small plates, each better than the last.",
        ),
        "waiters": (
            "{name}, our waiter, never smiled.",
            "The staff explained every dish to us.",
            "We waited {n} minutes for the menu.",
        ),
        "prices": (
            "At {n} euros a person it is too expensive.",
            "The bill was lower than we had feared.",
            "A glass of wine costs only {n} euros.",
        ),
        "noise": (
            "The music was so loud that we had to shout.",
            "It is quiet enough to hear the rain.",
            "Children ran around between the tables, screaming.",
        ),
        "location": (
            "It lies behind the station of {city}.",
            "From the terrace you can see the harbour of {city}.",
            "Take tram {n}, which stops in front of the door.",
        ),
    },
    "review of a phone": {
        "battery": (
            "It lasts {n} hours before it must be charged.",
            "By noon the battery was empty.",
            "Charging takes less than an hour.",
        ),
        "camera": (
            "Photos in the dark are full of noise.",
            "The camera takes sharp pictures even of moving dogs.",
            "The zoom reaches {n} times.",
        ),
        "screen": (
            "The display is bright enough for the beach.",
            "After {n} days the screen had its first scratch.",
            "Colours on the screen look pale.",
        ),
        "price": (
            "For {n} euros less you get the same from others.",
            "It is worth every cent.",
            "{name} paid half as much in {city}.",
        ),
        "weight": (
            "It weighs as much as a bar of chocolate.",
            "My wrist hurts after {n} minutes of holding it.",
            "It is so light that I forget it in my pocket.",
        ),
    },
    "report on a meeting": {
        "budget": (
            "The budget grows by {n} percent.",
            "{name} warned that the money will run out in {month}.",
            "There is nothing left for travel expenses.",
        ),
        "staff": (
            "Two new colleagues begin in {month}.",
            "{name} leaves the company at the end of {month}.",
            "Nobody applied for the vacant position.",
        ),
        "building": (
            "The office in {city} gets a new roof.",
            "The lift will be repaired in {month}.",
            "The heating on floor {n} is broken.",
        ),
        "customers": (
            "{n} customers complained about late deliveries.",
            "A large customer from {city} cancelled the contract.",
            "Customers like the new website.",
        ),
        "next meeting": (
            "We meet again on {month} {n}.",
            "{name} invites everybody to the next meeting in {city}.",
            "The next meeting will be online.",
        ),
    },
}

_KINDS = ("by speaker", "by topic")
"""Kinds of consecutive records."""

_COUNTS = (3, 3, 4, 4, 3, 3, 5, 5)
"""Numbers of sentences in the sources of consecutive records."""


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    rng = rng_of(TASK, seed, number)
    kind = _KINDS[number % len(_KINDS)]
    source, sentences_of = rng.choice(list(_SOURCES.items()))
    topics = rng.sample(list(sentences_of), _COUNTS[number % len(_COUNTS)])
    sentences = {topic: _written(rng, sentences_of[topic]) for topic in topics}
    speakers = dict(zip(topics, rng.sample(FIRST_NAMES, len(topics)), strict=True))
    asked = rng.choice(topics)
    if kind == "by speaker":
        lines = "\n".join(f'{speakers[topic]}: "{sentences[topic]}"' for topic in topics)
        text = f"{lines}\n\nWhat does {speakers[asked]} say? Quote it"
    else:
        written = " ".join(sentences.values())
        text = f"From a {source}:\n{written}\n\nQuote the sentence about the {asked}"
    other = rng.choice([topic for topic in sentences_of if topic != asked])
    return Record(
        TASK,
        kind,
        number,
        f"{text} exactly as it is written, as JSON: sentence.",
        object_schema({"sentence": {"type": "string", "maxLength": 100}}),
        {"sentence": sentences[asked]},
        {"sentence": _written(rng, sentences_of[other])},
        max_tokens=48,
    )


def _written(rng: Random, templates: Sequence[str]) -> str:
    return rng.choice(templates).format(
        name=rng.choice(FIRST_NAMES),
        city=rng.choice(CITIES),
        month=rng.choice(MONTHS),
        n=rng.randint(3, 28),
    )
