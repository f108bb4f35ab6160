"""Conversions: the values have other units and formats than the text."""

from __future__ import annotations

import random
from typing import Any

from speculation_tasks.base import TEXT, Template, integer_to, number_in, object_schema
from speculation_tasks.words import in_words

__all__ = ["TEMPLATES"]


def weather(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"{day} {sky[0]}, {wind[0]}, {in_words(degrees)} degrees."
        for day, sky, wind, degrees in zip(days, skies, winds, warmth, strict=True)
    )
    prompt = (
        "The forecast below is in Fahrenheit. Convert it to metric records, with the wind in "
        f"Beaufort.\n\n{told}\n"
    )
    record = object_schema(
        {
            "offset_hours": {"enum": [0, 24, 48]},
            "temperature_celsius": number_in(-40, 60),
            "condition": {"enum": ["clear", "overcast", "rain", "storm", "snow"]},
            "precipitation_mm": number_in(0, 200),
            "beaufort": integer_to(12),
            "advice": TEXT,
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


def recipe(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"You need {named} and {parts[-1][0]}. First {steps[0][0]}, then {steps[1][0]}. Into a "
        "hot oven "
        f"for {in_words(minutes)} minutes. That fed {in_words(people)} of us, with the dog looking "
        "on.\n"
    )
    schema = object_schema(
        {
            "servings": integer_to(20),
            "oven": object_schema({"celsius": integer_to(300), "seconds": integer_to(20_000)}),
            "ingredients": {
                "type": "array",
                "items": object_schema({"grams": integer_to(5000), "name": TEXT}),
            },
            "method": {"type": "array", "items": TEXT},
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


def journey(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"Then {way[0]} to {city[0]}, {in_words(length)} hours."
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
            "minutes": integer_to(3000),
            "overnight": {"type": "boolean"},
        }
    )
    schema = object_schema(
        {
            "legs": {"type": "array", "items": leg, "maxItems": 6},
            "total_minutes": integer_to(9000),
            "mood": TEXT,
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


TEMPLATES: tuple[Template, ...] = (weather, recipe, journey)
