"""Names, places, dates and amounts of the documents for drafts, drawn from seeds."""

from __future__ import annotations

import random
from datetime import date, timedelta

__all__ = [
    "CITIES",
    "COMPANIES",
    "EVENTS",
    "ITEMS",
    "SKILLS",
    "date_words",
    "email_of",
    "in_words",
    "iso_date",
    "money",
    "person",
    "phone",
    "some_date",
    "street",
]

_FIRST = [
    "Ada",
    "Bruno",
    "Carmen",
    "Dilek",
    "Edvard",
    "Farida",
    "Goran",
    "Hanneke",
    "Imogen",
    "Jorge",
    "Katya",
    "Lionel",
    "Mirela",
    "Nuno",
    "Oona",
    "Pavel",
    "Quentin",
    "Rosalind",
    "Samir",
    "Tove",
    "Ursula",
    "Viktor",
    "Wanda",
    "Yusuf",
    "Zdenka",
]
_LAST = [
    "Abernathy",
    "Brandvold",
    "Castellanos",
    "Dufresne",
    "Eklund",
    "Fairbanks",
    "Grabowski",
    "Hollingworth",
    "Iyer",
    "Jankovic",
    "Kilpatrick",
    "Lindqvist",
    "Mbeki",
    "Novotny",
    "Okonkwo",
    "Petrosyan",
    "Quiroga",
    "Rasmussen",
    "Santangelo",
    "Thornbury",
    "Uzun",
    "Vandermeer",
    "Whitlock",
    "Yamaguchi",
    "Zieliński",
]
_STREETS = [
    "Quarry Lane",
    "Harbour Street",
    "Chestnut Avenue",
    "Mill Road",
    "Bishop's Walk",
    "Station Square",
    "Ropemaker Row",
    "Orchard Close",
    "Lower Bridge Street",
    "Northgate",
]

_NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

CITIES = [
    "Aberdeen",
    "Bruges",
    "Coimbra",
    "Dresden",
    "Esbjerg",
    "Ferrara",
    "Groningen",
    "Haapsalu",
    "Innsbruck",
    "Jönköping",
    "Kraków",
    "Ljubljana",
    "Málaga",
    "Nantes",
    "Olomouc",
    "Portsmouth",
]
COMPANIES = [
    "Alder & Finch Ltd",
    "Brightwater Logistics GmbH",
    "Corvid Instruments",
    "Dunmore Paper Mills",
    "Eastlake Robotics Inc.",
    "Fjordline Ferries AS",
    "Greywood Furniture",
    "Halcyon Optics",
    "Ironbridge Castings",
    "Juniper Street Bakery",
    "Kestrel Air Services",
    "Larkspur Seeds Co.",
]
ITEMS = [
    "Hex bolt M8 x 40, galvanised",
    "Copy paper A4, 80 g, white",
    "Bearing 6204-2RS",
    "Oak table top 180 x 90",
    "LED panel 60 x 60, 4000 K",
    "Rubber gasket DN50",
    "Cordless drill, 18 V",
    "Safety goggles, clear",
    "Pallet truck, 2.5 t",
    "Ethernet cable Cat 6, 10 m",
    "Ceramic planter, round",
    "Label printer, thermal",
    "Wool blanket, herringbone",
    "Stainless ladle, 30 cm",
]
SKILLS = [
    "fluent Spanish",
    "a forklift licence",
    "experience with PostgreSQL",
    "a steady hand",
    "patience with customers",
    "knowledge of food hygiene rules",
    "basic welding",
    "willingness to work shifts",
    "an eye for detail",
    "a completed apprenticeship",
    "confidence on the telephone",
    "some knowledge of Kubernetes",
]
EVENTS = [
    "An Evening of Baroque Trios",
    "The Night of the Open Workshops",
    "Bats over the River: a Guided Walk",
    "Repair Café No. 40",
    "Lecture: Why Bridges Sing",
    "Annual General Meeting of the Rowing Club",
    "Second-hand Book Market",
    "Poetry on the Late Tram",
]


def in_words(number: int) -> str:
    """Return a number from 0 to 999 in words."""
    if number < len(_NUMBERS):
        return _NUMBERS[number]
    if number >= 100:
        rest = f" and {in_words(number % 100)}" if number % 100 else ""
        return f"{_NUMBERS[number // 100]} hundred{rest}"
    tens = _TENS[number // 10 - 2]
    return f"{tens}-{_NUMBERS[number % 10]}" if number % 10 else tens


def person(draw: random.Random) -> str:
    """Return a name."""
    initial = f"{draw.choice('ABCDEFGHJKLMNPRST')}. " if draw.random() < 0.25 else ""
    return f"{draw.choice(_FIRST)} {initial}{draw.choice(_LAST)}"


def email_of(name: str, company: str) -> str:
    """Return a person's address at a company."""
    parts = name.lower().replace(".", "").replace("ń", "n").split()
    domain = company.split()[0].lower().strip(".,")
    return f"{parts[0]}.{parts[-1]}@{domain}.example"


def street(draw: random.Random) -> str:
    """Return a street with a number."""
    number = draw.randrange(1, 240)
    road = draw.choice(_STREETS)
    return f"{number} {road}" if draw.random() < 0.6 else f"{road} {number}"


def phone(draw: random.Random) -> str:
    """Return a telephone number."""
    return f"+{draw.randrange(30, 60)} {draw.randrange(100, 999)} {draw.randrange(10**5, 10**6)}"


def money(draw: random.Random, most: int = 900) -> str:
    """Return an amount as a JSON number writes it: without a trailing zero."""
    return f"{draw.randrange(2, most)}.{draw.randrange(10)}{draw.randrange(1, 10)}"


def some_date(draw: random.Random) -> date:
    """Return a day."""
    return date(2024, 1, 1) + timedelta(days=draw.randrange(1000))


def iso_date(draw: random.Random) -> str:
    """Return a date such as 2026-03-09."""
    return some_date(draw).isoformat()


def date_words(day: date) -> str:
    """Return a date such as Monday, 9 March 2026."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}"
