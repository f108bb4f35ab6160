"""The functions that questions are about, and the questions that need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from quality_tasks.base import object_schema
from quality_tasks.words import CITIES, CUISINES, FIRST_NAMES, LANGUAGES, PRODUCTS

__all__ = ["FUNCTIONS", "NO_CALL_QUESTIONS", "Function"]

_CURRENCIES = ("EUR", "USD", "GBP", "JPY", "CHF")
_WORDS = ("garden", "bridge", "cheese", "winter", "window", "river", "doctor", "summer")
_ARTISTS = ("Mozart", "Miles Davis", "Nina Simone", "Bach", "Bob Marley", "Chopin")
_ROOMS = ("kitchen", "bedroom", "bathroom", "office", "garage")


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        name: Its name.
        about: What it does.
        parameters: Schemas by parameter.
        draw: Draws arguments.
        requests: Requests that need a call, with a slot for each argument.
    """

    name: str
    about: str
    parameters: Mapping[str, Mapping[str, Any]]
    draw: Callable[[Random], dict[str, Any]]
    requests: Sequence[str]

    @property
    def signature(self) -> str:
        """The function as a line of text."""
        inside = ", ".join(f"{name}: {_type(schema)}" for name, schema in self.parameters.items())
        return f"{self.name}({inside})"

    @property
    def arguments_schema(self) -> dict[str, Any]:
        """The schema of the arguments."""
        return object_schema(self.parameters)

    @property
    def tool(self) -> dict[str, Any]:
        """The definition in OpenAI's form."""
        described = {
            "name": self.name,
            "description": self.about,
            "parameters": self.arguments_schema,
        }
        return {"type": "function", "function": described}

    def call(self, rng: Random) -> tuple[dict[str, Any], str]:
        """Draw a call and a request that needs it."""
        arguments = self.draw(rng)
        request = rng.choice(self.requests).format_map(arguments)
        return {"name": self.name, "arguments": arguments}, request


_TEXT = {"type": "string", "maxLength": 40}
_INTEGER = {"type": "integer"}


def _enum(values: Sequence[str]) -> dict[str, Any]:
    return {"enum": list(values)}


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    return str(schema["type"])


FUNCTIONS = (
    Function(
        "get_weather",
        "Get the weather of a city.",
        {"city": _TEXT},
        lambda rng: {"city": rng.choice(CITIES)},
        ("What is the weather like in {city}?", "Is it raining in {city}?"),
    ),
    Function(
        "convert_currency",
        "Convert an amount of money.",
        {"amount": _INTEGER, "source": _enum(_CURRENCIES), "target": _enum(_CURRENCIES)},
        lambda rng: dict(
            zip(
                ("amount", "source", "target"),
                (rng.randint(5, 900), *rng.sample(_CURRENCIES, 2)),
                strict=True,
            )
        ),
        ("How much are {amount} {source} in {target}?", "Convert {amount} {source} to {target}."),
    ),
    Function(
        "set_timer",
        "Start a timer.",
        {"minutes": _INTEGER},
        lambda rng: {"minutes": rng.randint(2, 59)},
        ("Set a timer for {minutes} minutes.", "Wake me in {minutes} minutes."),
    ),
    Function(
        "call_contact",
        "Call somebody by phone.",
        {"name": _TEXT},
        lambda rng: {"name": rng.choice(FIRST_NAMES)},
        ("Call {name}, please.", "I want to speak to {name} on the phone."),
    ),
    Function(
        "translate_word",
        "Translate an English word.",
        {"word": _TEXT, "language": _enum(LANGUAGES[1:])},
        lambda rng: {"word": rng.choice(_WORDS), "language": rng.choice(LANGUAGES[1:])},
        ("What does {word} mean in {language}?", "Translate {word} into {language}."),
    ),
    Function(
        "find_restaurant",
        "Find a restaurant.",
        {"cuisine": _enum(CUISINES), "city": _TEXT},
        lambda rng: {"cuisine": rng.choice(CUISINES), "city": rng.choice(CITIES)},
        ("Find me {cuisine} food in {city}.", "Where in {city} is a good {cuisine} restaurant?"),
    ),
    Function(
        "set_light",
        "Switch the light of a room on or off.",
        {"room": _enum(_ROOMS), "on": {"type": "boolean"}},
        lambda rng: {"room": rng.choice(_ROOMS), "on": True},
        ("Switch on the light in the {room}.", "It is too dark in the {room}. Light, please!"),
    ),
    Function(
        "play_music",
        "Play music of an artist.",
        {"artist": _TEXT},
        lambda rng: {"artist": rng.choice(_ARTISTS)},
        ("Play something by {artist}.", "I would like to listen to {artist}."),
    ),
    Function(
        "add_to_cart",
        "Put an article into the shopping cart.",
        {"article": _TEXT, "quantity": _INTEGER},
        lambda rng: {"article": rng.choice(PRODUCTS), "quantity": rng.randint(1, 9)},
        ("Put {quantity} times {article} into my cart.", "Order: {article}, quantity {quantity}."),
    ),
    Function(
        "book_train",
        "Book a train ticket.",
        {"origin": _TEXT, "destination": _TEXT},
        lambda rng: dict(zip(("origin", "destination"), rng.sample(CITIES, 2), strict=True)),
        (
            "Book a train from {origin} to {destination}.",
            "I am in {origin} and need a train ticket to {destination}.",
        ),
    ),
)

NO_CALL_QUESTIONS = (
    "Thank you, that was all.",
    "Good morning! How are you?",
    "Who wrote Hamlet?",
    "What is your name?",
    "Tell me a joke about cats.",
    "Why is the sky blue?",
    "I am bored.",
    "Write a poem about the sea.",
    "What is the capital of France?",
    "Do you like football?",
    "You are very helpful!",
    "How many legs does a spider have?",
)
"""Requests that none of the functions serves."""
