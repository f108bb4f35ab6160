"""Classification with ``enum`` and Boolean fields: one or two labels for a text, with or without a
rationale before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from quality_tasks.base import Record, object_schema, rng_of
from quality_tasks.classification_texts import (
    EMOTIONS,
    INTENTS,
    LANGUAGE_TEXTS,
    SENTIMENTS,
    SPAM,
    TOPICS,
    Labels,
)
from quality_tasks.words import CITIES, COMPANIES, FIRST_NAMES, PRODUCTS

__all__ = ["make_rationale_record", "make_record"]

TASK = "classification"
TASK_WITH_RATIONALE = "rationale"


@dataclass(frozen=True)
class _Question:
    """A field, the question about it, and the texts of its labels."""

    field: str
    about: str
    texts: Labels


_SENTIMENT = _Question("sentiment", "What is the sentiment of this review?", SENTIMENTS)
_TOPIC = _Question("topic", "What is the topic of this news item?", TOPICS)
_INTENT = _Question("intent", "What is the intent of this message?", INTENTS)
_EMOTION = _Question("emotion", "What is the emotion in this text?", EMOTIONS)
_LANGUAGE = _Question("language", "What is the language of this text?", LANGUAGE_TEXTS)
_SPAM = _Question("is_spam", "Is this message spam (is_spam)?", SPAM)
_QUESTIONS = (_SENTIMENT, _TOPIC, _INTENT, _EMOTION, _SPAM, _LANGUAGE, _SENTIMENT, _TOPIC)
"""Questions of consecutive records; the last two also ask for a second label."""


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    rng = rng_of(TASK, seed, number)
    place = number % len(_QUESTIONS)
    asked = _QUESTIONS[place]
    label = rng.choice(list(asked.texts))
    text = _filled(rng, rng.choice(asked.texts[label]))
    # In any order, so that a preference for the first label has no influence on the average.
    fields = {asked.field: _values(asked)}
    rng.shuffle(fields[asked.field])
    gold: dict[str, Any] = {asked.field: _value(asked, label)}
    is_double = place >= 6
    if is_double:
        fields["mentions_city"] = [True, False]
        gold["mentions_city"] = any(city in text for city in CITIES)
    questions = [f"{asked.about} Possible answers: {_listed(fields[asked.field])}."]
    if is_double:
        questions.append("Does it name a city (mentions_city)? Possible answers: true, false.")
    question = f'"{text}"\n\n{" ".join(questions)} Answer as JSON.'
    kind = "two labels" if is_double else _kind(len(asked.texts))
    example = {name: rng.choice(values) for name, values in fields.items()}
    return Record(TASK, kind, number, question, _schema(fields), gold, example, max_tokens=32)


def make_rationale_record(seed: int, number: int) -> Record:
    """Return a record whose labels follow a rationale, which is not scored.

    Its check requires that the rationale names the chosen label.
    """
    record = make_record(seed, number)
    rationale = {"type": "string", "maxLength": 160}
    return replace(
        record,
        task=TASK_WITH_RATIONALE,
        question=record.question.replace(
            "Answer as JSON.", "Answer as JSON, with a rationale (one sentence) first."
        ),
        schema=object_schema({"rationale": rationale, **record.schema["properties"]}),
        example={"rationale": "The words of the text show it.", **record.example},
        max_tokens=96,
        check=_check_rationale,
    )


def _check_rationale(value: Mapping[str, Any]) -> None:
    labels = [each for name, each in value.items() if name != "rationale" and isinstance(each, str)]
    for label in labels:
        if label.casefold() not in value["rationale"].casefold():
            raise ValueError(f"the rationale does not name the answer {label!r}")


def _kind(labels: int) -> str:
    return "true or false" if labels == 2 else f"{labels} labels"


def _values(asked: _Question) -> list[Any]:
    return [_value(asked, label) for label in asked.texts]


def _value(asked: _Question, label: str) -> Any:
    return label == "yes" if asked is _SPAM else label


def _listed(values: list[Any]) -> str:
    return ", ".join(
        str(value).lower() if isinstance(value, bool) else str(value) for value in values
    )


def _schema(fields: Mapping[str, list[Any]]) -> dict[str, Any]:
    return object_schema(
        {
            name: {"type": "boolean"} if isinstance(values[0], bool) else {"enum": values}
            for name, values in fields.items()
        }
    )


def _filled(rng: Random, template: str) -> str:
    return template.format(
        name=rng.choice(FIRST_NAMES),
        city=rng.choice(CITIES),
        product=rng.choice(PRODUCTS),
        company=rng.choice(COMPANIES),
        n=rng.randint(2, 59),
    )
