"""Classification and summaries: the values say the same as the text in other words."""

from __future__ import annotations

import random
from typing import Any

from speculation_tasks.base import TEXT, Template, integer_to, number_in, object_schema
from speculation_tasks.words import in_words, some_date

__all__ = ["TEMPLATES"]


def review(draw: random.Random) -> tuple[str, Any, Any]:
    complaints = draw.sample(
        [
            (
                "you can hear it three rooms away",
                {"aspect": "noise", "severity": "high", "finding": "Far too loud in operation"},
            ),
            (
                "the booklet seems to have been translated by a parrot",
                {"aspect": "manual", "severity": "low", "finding": "Instructions hardly readable"},
            ),
            (
                "after a fortnight the lid no longer clicked shut",
                {"aspect": "durability", "severity": "high", "finding": "Closure broke early"},
            ),
            (
                "it took them the better part of a month to get it here",
                {"aspect": "delivery", "severity": "medium", "finding": "Shipping was very slow"},
            ),
        ],
        3,
    )
    praise, liked = draw.choice(
        [
            ("I will say the coffee itself is a small miracle", "Excellent taste of the drinks"),
            ("it does look lovely next to the bread bin", "Attractive design for a kitchen"),
        ]
    )
    stars = draw.randrange(2, 4)
    prompt = (
        "Classify the review.\n\n"
        f"{praise}. But {complaints[0][0]}, {complaints[1][0]}, and {complaints[2][0]}. "
        f"{in_words(stars).capitalize()} stars, and I am being generous. Would not buy it again.\n"
    )
    issue = object_schema(
        {
            "aspect": {"enum": ["noise", "manual", "durability", "delivery", "price"]},
            "severity": {"enum": ["low", "medium", "high"]},
            "finding": TEXT,
        }
    )
    schema = object_schema(
        {
            "sentiment": {"enum": ["positive", "mixed", "negative"]},
            "rating": {"type": "integer", "minimum": 1, "maximum": 5},
            "recommended": {"type": "boolean"},
            "issues": {"type": "array", "items": issue},
            "strengths": {"type": "array", "items": TEXT},
        }
    )
    value = {
        "sentiment": "negative" if stars == 2 else "mixed",
        "rating": stars,
        "recommended": False,
        "issues": [facts for _, facts in complaints],
        "strengths": [liked],
    }
    return prompt, schema, value


def minutes(draw: random.Random) -> tuple[str, Any, Any]:
    decisions = draw.sample(
        [
            (
                "nobody wants to keep paying for the second office, so the lease goes",
                "Terminate rent contract",
                "facilities",
            ),
            (
                "we stop answering tickets on Sundays from now on",
                "Reduce support hours at weekends",
                "customers",
            ),
            (
                "the intern gets an offer",
                "Hire the trainee permanently",
                "people",
            ),
            (
                "the spring trade fair happens without us this time",
                "Skip next exhibition",
                "marketing",
            ),
        ],
        3,
    )
    day = some_date(draw)
    begin, length = draw.randrange(1, 5), draw.choice([45, 50, 90])
    heads = draw.randrange(4, 12)
    prompt = (
        "Put the minutes into the form.\n\n"
        f"We met on day {in_words(day.day)}, all {in_words(heads)} of us, at {in_words(begin)} "
        f"in the afternoon, and talked for {in_words(length)} minutes. First: {decisions[0][0]}. "
        "Then, after "
        f"some shouting, {decisions[1][0]}. Finally {decisions[2][0]}. The next meeting is when "
        "the "
        "printer works again.\n"
    )
    decision = object_schema(
        {
            "area": {"enum": ["facilities", "customers", "people", "marketing", "other"]},
            "decision": TEXT,
            "unanimous": {"type": "boolean"},
        }
    )
    schema = object_schema(
        {
            "start_time": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
            "duration": {"type": "string", "pattern": "^PT[0-9]+M$"},
            "participants": integer_to(50),
            "decisions": {"type": "array", "items": decision},
            "next_meeting": {"type": ["string", "null"]},
        }
    )
    value = {
        "start_time": f"{begin + 12}:00",
        "duration": f"PT{length}M",
        "participants": heads,
        "decisions": [
            {"area": area, "decision": text, "unanimous": number != 1}
            for number, (_, text, area) in enumerate(decisions)
        ],
        "next_meeting": None,
    }
    return prompt, schema, value


def ticket(draw: random.Random) -> tuple[str, Any, Any]:
    trouble, title, component, cause = draw.choice(
        [
            (
                "since this morning I get thrown out whenever I try to pay, and nobody answers",
                "Checkout logs customers off",
                "payments",
                "Session probably expires during redirect",
            ),
            (
                "my pictures come out sideways on the tablet, though they are fine on the computer",
                "Wrong image orientation on mobile",
                "media",
                "Rotation metadata seems ignored",
            ),
            (
                "the search only finds things if I type them exactly, capital letters and all",
                "Lookup is case-sensitive",
                "index",
                "Normalisation step missing",
            ),
        ]
    )
    tried, action = draw.choice(
        [
            ("I switched it off and on", "Restarted the device"),
            ("my nephew cleaned out the browser", "Deleted cookies and cached files"),
        ]
    )
    times = draw.choice([4, 6, 7])
    prompt = (
        "Triage the message for the engineers.\n\n"
        f"Hello, {trouble}! {tried.capitalize()}, which changed nothing whatsoever. It is now the "
        f"{in_words(times)}th time this month, and frankly I am about to leave. My wife "
        "says hello.\n"
    )
    schema = object_schema(
        {
            "title": {"type": "string", "maxLength": 60},
            "component": {"enum": ["payments", "media", "index", "accounts", "unknown"]},
            "priority": {"enum": ["P0", "P1", "P2", "P3"]},
            "attempts": {"type": "array", "items": TEXT},
            "hypothesis": TEXT,
            "churn_risk": number_in(0, 1),
            "occurrences": integer_to(100),
            "needs_reply": {"type": "boolean"},
            "tone": {"enum": ["calm", "annoyed", "furious"]},
        }
    )
    value = {
        "title": title,
        "component": component,
        "priority": draw.choice(["P1", "P2"]),
        "attempts": [action],
        "hypothesis": cause,
        "churn_risk": draw.choice([0.75, 0.8, 0.85]),
        "occurrences": times,
        "needs_reply": True,
        "tone": "annoyed",
    }
    return prompt, schema, value


def advertisement(draw: random.Random) -> tuple[str, Any, Any]:
    thing, kind, summary = draw.choice(
        [
            ("our trusty estate, diesel, once silver", "car", "Used station wagon for sale"),
            ("my late uncle's sloop, needs love", "boat", "Small sailing vessel to restore"),
            ("a tandem nobody rides any more", "bicycle", "Two-seater looking for riders"),
        ]
    )
    flaws = draw.sample(
        [
            ("a dent where the gate was", "Body damage at one side"),
            ("the seats have seen children", "Upholstery is stained"),
            ("it starts when it feels like it", "Ignition unreliable"),
            ("rust has found the corners", "Some corrosion"),
        ],
        2,
    )
    age, price = draw.randrange(8, 20), draw.randrange(3, 20)
    prompt = (
        "Make a record of the advertisement; prices in cents.\n\n"
        f"For sale: {thing}. {in_words(age).capitalize()} years old, {flaws[0][0]}, {flaws[1][0]}, "
        f"otherwise a faithful companion. {in_words(price).capitalize()} hundred and it is yours, "
        "haggling "
        "welcome. No dealers. Come and look after church.\n"
    )
    schema = object_schema(
        {
            "category": {"enum": ["car", "boat", "bicycle", "furniture"]},
            "summary": TEXT,
            "year_built": {"type": "integer", "minimum": 1950, "maximum": 2026},
            "price_cents": integer_to(10**8),
            "negotiable": {"type": "boolean"},
            "defects": {
                "type": "array",
                "items": object_schema({"text": TEXT, "repair_cost": {"enum": ["low", "high"]}}),
            },
            "viewing": object_schema({"weekday": integer_to(7), "note": TEXT}),
        }
    )
    value = {
        "category": kind,
        "summary": summary,
        "year_built": 2026 - age,
        "price_cents": 10_000 * price,
        "negotiable": True,
        "defects": [
            {"text": text, "repair_cost": cost}
            for (_, text), cost in zip(flaws, draw.sample(["low", "high"], 2), strict=True)
        ],
        "viewing": {"weekday": 7, "note": draw.choice(["Private buyers only", "Around midday"])},
    }
    return prompt, schema, value


TEMPLATES: tuple[Template, ...] = (review, minutes, ticket, advertisement)
