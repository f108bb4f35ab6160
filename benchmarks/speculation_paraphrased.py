"""Documents whose values say what the source says in other words, units and formats."""

from __future__ import annotations

import random
from typing import Any

from speculation_documents import Task, object_schema, tasks_of
from speculation_words import some_date

__all__ = ["paraphrased_tasks"]

_TEXT = {"type": "string"}
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
_TENS = {30: "thirty", 40: "forty", 45: "forty-five", 50: "fifty", 90: "ninety"}


def paraphrased_tasks() -> list[Task]:
    """Return the set."""
    templates = (_review, _minutes, _weather, _recipe, _ticket, _journey, _advertisement)
    return tasks_of("paraphrased", templates)


def _words(number: int) -> str:
    return _TENS.get(number) or _NUMBERS[number]


def _number(minimum: float, maximum: float) -> dict[str, Any]:
    return {"type": "number", "minimum": minimum, "maximum": maximum}


def _count(maximum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": maximum}


def _review(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"{_words(stars).capitalize()} stars, and I am being generous. Would not buy it again.\n"
    )
    issue = object_schema(
        {
            "aspect": {"enum": ["noise", "manual", "durability", "delivery", "price"]},
            "severity": {"enum": ["low", "medium", "high"]},
            "finding": _TEXT,
        }
    )
    schema = object_schema(
        {
            "sentiment": {"enum": ["positive", "mixed", "negative"]},
            "rating": {"type": "integer", "minimum": 1, "maximum": 5},
            "recommended": {"type": "boolean"},
            "issues": {"type": "array", "items": issue},
            "strengths": {"type": "array", "items": _TEXT},
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


def _minutes(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"We met on day {_words(min(20, day.day))}, all {_words(heads)} of us, at {_words(begin)} in "
        f"the afternoon, and talked for {_words(length)} minutes. First: {decisions[0][0]}. Then, after "
        f"some shouting, {decisions[1][0]}. Finally {decisions[2][0]}. The next meeting is when the "
        "printer works again.\n"
    )
    decision = object_schema(
        {
            "area": {"enum": ["facilities", "customers", "people", "marketing", "other"]},
            "decision": _TEXT,
            "unanimous": {"type": "boolean"},
        }
    )
    schema = object_schema(
        {
            "start_time": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
            "duration": {"type": "string", "pattern": "^PT[0-9]+M$"},
            "participants": _count(50),
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


def _weather(draw: random.Random) -> tuple[str, Any, Any]:
    skies = draw.sample(
        [
            ("not a cloud to be seen", "clear", 0.0),
            ("the odd shower blowing through", "rain", 2.5),
            ("grey from end to end but dry", "overcast", 0.0),
            ("thunder before supper", "storm", 11.0),
            ("wet flakes on the higher farms", "snow", 4.5),
        ],
        3,
    )
    winds = draw.sample(
        [("barely a breath of air", 1), ("a stiff breeze", 5), ("half a gale", 7)], 3
    )
    warmth = [draw.randrange(41, 90) for _ in skies]
    days = ("Today", "Tomorrow", "The day after")
    told = " ".join(
        f"{day} {sky[0]}, {wind[0]}, {_in_words(degrees)} degrees."
        for day, sky, wind, degrees in zip(days, skies, winds, warmth, strict=True)
    )
    prompt = (
        "The forecast below is in Fahrenheit. Convert it to metric records, with the wind in "
        f"Beaufort.\n\n{told}\n"
    )
    record = object_schema(
        {
            "offset_hours": {"enum": [0, 24, 48]},
            "temperature_celsius": _number(-40, 60),
            "condition": {"enum": ["clear", "overcast", "rain", "storm", "snow"]},
            "precipitation_mm": _number(0, 200),
            "beaufort": _count(12),
            "advice": _TEXT,
        },
        optional=["advice"],
    )
    advice = {"storm": "Stay indoors in the evening", "rain": "Carry an umbrella"}
    value = []
    for number, (sky, wind, degrees) in enumerate(zip(skies, winds, warmth, strict=True)):
        one = {
            "offset_hours": 24 * number,
            "temperature_celsius": round((degrees - 32) / 1.8, 1),
            "condition": sky[1],
            "precipitation_mm": sky[2],
            "beaufort": wind[1],
        }
        if sky[1] in advice:
            one["advice"] = advice[sky[1]]
        value.append(one)
    return prompt, {"type": "array", "items": record}, value


def _in_words(number: int) -> str:
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()[number // 10 - 2]
    return f"{tens}-{_NUMBERS[number % 10]}" if number % 10 else tens


def _recipe(draw: random.Random) -> tuple[str, Any, Any]:
    parts = draw.sample(
        [
            ("half a pound of flour", "wheat flour", 227),
            ("a stick of butter", "unsalted butter", 113),
            ("a teacup of sugar", "caster sugar", 190),
            ("a fistful of walnuts", "chopped nuts", 60),
            ("the juice of a lemon", "citrus juice", 45),
        ],
        4,
    )
    steps = draw.sample(
        [
            ("work everything together with cold hands", "Combine quickly, keeping it cool"),
            ("let it sit in the larder until you have fed the hens", "Rest for half an hour"),
            ("roll it as thick as your little finger", "Flatten to one centimetre"),
        ],
        2,
    )
    minutes, people = draw.choice([30, 40, 45, 50]), draw.randrange(4, 9)
    named = ", ".join(part[0] for part in parts[:-1])
    prompt = (
        "Rewrite my grandmother's recipe as structured data, in metric units.\n\n"
        f"You need {named} and {parts[-1][0]}. First {steps[0][0]}, then {steps[1][0]}. Into a hot oven "
        f"for {_words(minutes)} minutes. That fed {_words(people)} of us, with the dog looking on.\n"
    )
    schema = object_schema(
        {
            "servings": _count(20),
            "oven": object_schema({"celsius": _count(300), "seconds": _count(20_000)}),
            "ingredients": {
                "type": "array",
                "items": object_schema({"grams": _count(5000), "name": _TEXT}),
            },
            "method": {"type": "array", "items": _TEXT},
            "vegetarian": {"type": "boolean"},
        }
    )
    value = {
        "servings": people,
        "oven": {"celsius": draw.choice([200, 220]), "seconds": 60 * minutes},
        "ingredients": [{"grams": grams, "name": name} for _, name, grams in parts],
        "method": [step for _, step in steps],
        "vegetarian": True,
    }
    return prompt, schema, value


def _ticket(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"{_words(times)}th time this month, and frankly I am about to leave. My wife says hello.\n"
    )
    schema = object_schema(
        {
            "title": {"type": "string", "maxLength": 60},
            "component": {"enum": ["payments", "media", "index", "accounts", "unknown"]},
            "priority": {"enum": ["P0", "P1", "P2", "P3"]},
            "attempts": {"type": "array", "items": _TEXT},
            "hypothesis": _TEXT,
            "churn_risk": _number(0, 1),
            "occurrences": _count(100),
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


def _journey(draw: random.Random) -> tuple[str, Any, Any]:
    cities = draw.sample(
        [
            ("the Austrian capital", "VIE"),
            ("the city of the Little Mermaid", "CPH"),
            ("the town of port wine", "OPO"),
            ("the city on fourteen islands", "ARN"),
            ("where the Acropolis stands", "ATH"),
        ],
        4,
    )
    hours = [draw.randrange(2, 15) for _ in range(3)]
    ways = draw.sample(
        [("by sleeper", "train"), ("on a rattling coach", "bus"), ("with the ferry", "ship")], 3
    )
    legs_told = " ".join(
        f"Then {way[0]} to {city[0]}, {_words(length)} hours."
        for way, city, length in zip(ways, cities[1:], hours, strict=True)
    )
    prompt = (
        "Give the itinerary with the codes of the nearest airports.\n\n"
        f"I set out from {cities[0][0]}. {legs_told} By the end I had no clean socks.\n"
    )
    leg = object_schema(
        {
            "mode": {"enum": ["train", "bus", "ship", "plane", "car"]},
            "origin": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "destination": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "minutes": _count(3000),
            "overnight": {"type": "boolean"},
        }
    )
    schema = object_schema(
        {
            "legs": {"type": "array", "items": leg, "maxItems": 6},
            "total_minutes": _count(9000),
            "mood": _TEXT,
        }
    )
    value = {
        "legs": [
            {
                "mode": way[1],
                "origin": start[1],
                "destination": end[1],
                "minutes": 60 * length,
                "overnight": length > 7,
            }
            for way, start, end, length in zip(ways, cities, cities[1:], hours, strict=False)
        ],
        "total_minutes": 60 * sum(hours),
        "mood": draw.choice(["Exhausted after all", "Happy but worn out"]),
    }
    return prompt, schema, value


def _advertisement(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"For sale: {thing}. {_words(age).capitalize()} years old, {flaws[0][0]}, {flaws[1][0]}, "
        f"otherwise a faithful companion. {_words(price).capitalize()} hundred and it is yours, haggling "
        "welcome. No dealers. Come and look after church.\n"
    )
    schema = object_schema(
        {
            "category": {"enum": ["car", "boat", "bicycle", "furniture"]},
            "summary": _TEXT,
            "year_built": {"type": "integer", "minimum": 1950, "maximum": 2026},
            "price_cents": _count(10**8),
            "negotiable": {"type": "boolean"},
            "defects": {
                "type": "array",
                "items": object_schema({"text": _TEXT, "repair_cost": {"enum": ["low", "high"]}}),
            },
            "viewing": object_schema({"weekday": _count(7), "note": _TEXT}),
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
