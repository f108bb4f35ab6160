"""What the texts of the extraction task are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from quality_tasks.extraction_facts import (
    Draw,
    Fact,
    date,
    flag,
    integer,
    length_of_time,
    number,
    one_of,
    text,
    time_of_day,
    values,
)
from quality_tasks.words import (
    CITIES,
    COLOURS,
    COMPANIES,
    FIRST_NAMES,
    LANGUAGES,
    LAST_NAMES,
    OCCUPATIONS,
    PRODUCTS,
    VILLAGES,
)

__all__ = ["DOMAINS", "Domain"]

_NAMES = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
_EVENTS = [
    f"{kind} on {topic}"
    for kind in ("Workshop", "Seminar", "Conference", "Lecture")
    for topic in ("Robotics", "Soil Health", "Modern Poetry", "Data Privacy", "Solar Energy")
]


@dataclass(frozen=True)
class Domain:
    """Facts about one thing.

    Attributes:
        opening: The fact that begins every text.
        facts: The other facts.
        distractors: Sentences about something else, with ``{name}``, ``{city}``, ``{product}`` and
            ``{n}`` to be filled in.
    """

    opening: Fact
    facts: Sequence[Fact]
    distractors: Sequence[str]


def _scaled(low: int, high: int, factor: int, unit: str, digits: int) -> Draw:
    """Draw ``low`` to ``high`` small units, and write them in a unit of ``factor`` small ones."""

    def draw(rng: Random) -> tuple[Any, str]:
        step = factor // 10**digits
        value = rng.randint(low // step, high // step) * step
        return value, f"{value / factor:.{digits}f} {unit}"

    return draw


def _thousands(rng: Random) -> tuple[Any, str]:
    value = rng.randint(21, 98) * 1000 + rng.choice((0, 200, 500, 750))
    return value, f"{value:,}"


def _price(rng: Random) -> tuple[Any, str]:
    value = rng.randint(5, 90) + rng.choice((0.5, 0.25, 0.99, 0.75))
    return value, f"{value:.2f}"


def _temperature(rng: Random) -> tuple[Any, str]:
    value = rng.randint(-12, 28)
    return value, f"minus {-value} degrees" if value < 0 else f"{value} degrees"


PERSON = Domain(
    text("name", _NAMES, "{} joined the club this week.", "Please welcome {}.", "This is {}."),
    (
        integer("age", 18, 90, "The new member is {} years old.", "Age: {}.", bounded=True),
        text("city", CITIES, "Home is {}.", "The new member lives in {}.", "Living in {} is fun."),
        text("occupation", OCCUPATIONS, "Occupation: {}.", "By profession a {}."),
        text("employer", COMPANIES, "The employer is {}.", "Works for {}."),
        integer("children", 0, 5, "Number of children: {}.", "There are {} children."),
        one_of("favourite_colour", COLOURS, "The favourite colour is {}.", "Nothing beats {}."),
        flag("married", ("Married for years.", "Has a spouse."), ("Never married.", "Single.")),
        flag(
            "owns_car",
            ("There is a car in the garage.", "Drives an own car."),
            ("The car was sold last year.", "Does not own a car any more."),
        ),
        number(
            "height_cm",
            _scaled(150, 200, 100, "m", 2),
            "whole centimetres",
            "Height: {}.",
            "Stands {} tall.",
        ),
        number(
            "salary", _thousands, "a number", "Earns {} euros a year.", "The salary is {} euros."
        ),
        date("member_since", "Member since {}.", "The membership began on {}."),
        values("languages", LANGUAGES, "Speaks {}.", "Languages spoken: {}."),
    ),
    (
        "The trainer, {name}, is {n} years old and lives in {city}.",
        "{name} from {city} left the club.",
    ),
)

ORDER = Domain(
    text("customer", _NAMES, "{} placed an order.", "We received an order from {}."),
    (
        text("product", PRODUCTS, "The item is a {}.", "Ordered: {}."),
        integer("quantity", 1, 40, "Quantity: {}.", "The customer wants {} pieces."),
        text("city", CITIES, "It goes to {}.", "The parcel is sent to {}."),
        one_of("colour", COLOURS, "The colour should be {}.", "It must be {}."),
        one_of("payment", ("card", "cash", "invoice"), "Payment by {}.", "It is paid by {}."),
        integer("order_number", 1000, 9999, "The order number is {}.", "Order no. {}."),
        integer("discount_percent", 0, 50, "There is a discount of {} percent.", bounded=True),
        flag(
            "gift_wrap",
            ("Please wrap it as a gift.", "It is a present and needs wrapping."),
            ("No gift wrapping, please.", "It does not need to be wrapped as a gift."),
        ),
        flag(
            "express",
            ("Send it by express.", "Express delivery was chosen."),
            ("Standard delivery is enough.", "Express delivery is not needed."),
        ),
        number(
            "weight_g",
            _scaled(300, 9000, 1000, "kg", 1),
            "whole grams",
            "It weighs {}.",
            "The parcel's weight is {}.",
        ),
        number("unit_price", _price, "a number", "Each costs {} euros.", "Price: {}.", whole=False),
        date("delivery_date", "It has to arrive by {}.", "Delivery on {}."),
        date("order_date", "The order was placed on {}.", "Ordered on {}."),
    ),
    (
        "Last year {name} from {city} ordered {n} pieces of a {product}.",
        "The return of a {product} to {city} is still open.",
    ),
)

FLAT = Domain(
    text("city", CITIES, "This flat is in {}.", "For rent in {}.", "A bright flat in {}."),
    (
        integer("rooms", 1, 7, "It has {} rooms.", "Number of rooms: {}.", bounded=True),
        integer("area_m2", 25, 180, "The area is {} square metres.", "It measures {} m2."),
        integer("floor", 1, 12, "It is on floor {}.", "Floor: {}."),
        text("landlord", _NAMES, "The landlord is {}.", "It is let by {}."),
        integer("rent", 450, 990, "The rent is {} euros a month.", "Rent: {} euros."),
        integer("built", 1890, 2023, "The house was built in {}.", "Year of construction: {}."),
        one_of("heating", ("gas", "electric", "wood"), "Heating: {}.", "The heating is {}."),
        flag(
            "balcony",
            ("There is a balcony.", "The balcony faces south."),
            ("There is no balcony.", "It lacks a balcony."),
        ),
        flag(
            "pets_allowed",
            ("Pets are welcome.", "You may bring your dog."),
            ("Pets are not allowed.", "Unfortunately no animals."),
        ),
        flag(
            "furnished",
            ("It comes with furniture.", "It is fully furnished."),
            ("It is unfurnished.", "Bring your own furniture, since it is empty."),
        ),
        number(
            "deposit", _thousands, "a number", "The deposit is {} euros.", "A deposit of {} is due."
        ),
        date("available_from", "It is free from {}.", "You can move in on {}."),
        number(
            "station_distance_m",
            _scaled(200, 4000, 1000, "km", 1),
            "whole metres",
            "The station is {} away.",
            "It is {} to the station.",
        ),
    ),
    (
        "A flat in {city} with {n} rooms was let yesterday.",
        "{name}, who lives next door, pays {n} euros for the garage.",
    ),
)

EVENT = Domain(
    text("title", _EVENTS, "{}: registration is open.", "You are invited to the {}."),
    (
        text("city", CITIES, "It takes place in {}.", "Venue: {}."),
        text("organiser", COMPANIES, "The organiser is {}.", "It is organised by {}."),
        text("speaker", _NAMES, "The speaker is {}.", "{} will speak."),
        integer("seats", 20, 300, "There are {} seats.", "Seats: {}."),
        integer("room", 100, 450, "Come to room {}.", "It is held in room {}."),
        one_of("language", LANGUAGES, "The language is {}.", "It is held in {}."),
        flag(
            "online",
            ("You can take part online.", "It is streamed on the internet."),
            ("There is no online access.", "It is not streamed."),
        ),
        flag(
            "lunch_included",
            ("Lunch is included.", "The fee covers lunch."),
            ("Lunch is not included.", "Bring your own lunch."),
        ),
        time_of_day("start", "It starts at {}.", "Doors open and talks begin at {}."),
        length_of_time("duration_minutes", "It lasts {}.", "Plan {} for it."),
        number("fee", _price, "a number", "The fee is {} euros.", "Tickets cost {}.", whole=False),
        date("date", "The date is {}.", "Join us on {}."),
        date("deadline", "Register until {}.", "Registration closes on {}."),
    ),
    (
        "Last year it was in {city} with {n} seats.",
        "{name} spoke in {city} about something else in spring.",
    ),
)

HIKE = Domain(
    text("start", VILLAGES, "The hike starts in {}.", "We set out from {}."),
    (
        text("guide", _NAMES, "The guide is {}.", "{} leads the group."),
        text("goal", CITIES, "It ends in {}.", "The goal is {}."),
        integer("participants", 3, 30, "There are {} participants.", "{} people take part."),
        integer("ascent_m", 150, 990, "The ascent is {} metres.", "It climbs {} metres."),
        one_of("difficulty", ("easy", "moderate", "hard"), "It is {}.", "Difficulty: {}."),
        integer("stops", 1, 6, "Number of stops: {}.", "We stop {} times.", bounded=True),
        flag(
            "dogs_allowed",
            ("Dogs may come along.", "Dogs are welcome."),
            ("Please leave dogs at home.", "Dogs are not allowed."),
        ),
        flag(
            "hut_open",
            ("The hut is open.", "The hut serves soup all day."),
            ("The hut is closed.", "The hut is not open yet."),
        ),
        number(
            "distance_m",
            _scaled(2000, 19000, 1000, "km", 1),
            "whole metres",
            "The distance is {}.",
            "The route is {} long.",
        ),
        number("temperature_c", _temperature, "a number", "We expect {}.", "The forecast says {}."),
        length_of_time("duration_minutes", "It takes {}.", "Walking time: {}."),
        time_of_day("departure", "Departure is at {}.", "We leave at {}."),
        date("date", "We go on {}.", "Date: {}."),
    ),
    (
        "Another group of {n} people, led by {name}, walks to {city}.",
        "The bus to {city} takes {n} minutes.",
    ),
)

DOMAINS = (PERSON, ORDER, FLAT, EVENT, HIKE)
