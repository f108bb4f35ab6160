"""The vocabulary of the generated texts."""

from __future__ import annotations

__all__ = [
    "CITIES",
    "COLOURS",
    "COMPANIES",
    "CUISINES",
    "FIRST_NAMES",
    "LANGUAGES",
    "LAST_NAMES",
    "MONTHS",
    "NUMBER_WORDS",
    "OCCUPATIONS",
    "PRODUCTS",
    "VILLAGES",
]

FIRST_NAMES = (
    "Ada Ben Clara David Elena Farid Grace Hugo Ines Jonas Karin Liam Maria Nadia Oscar Paula Quentin "
    "Rosa Samir Tara Ulrich Vera Walter Yusuf Zoe Amara Boris Chloe Dmitri Emma"
).split()
LAST_NAMES = (
    "Adams Bauer Costa Duval Eriksen Fischer Garcia Hansen Ibrahim Jensen Keller Lopez Martin Novak "
    "Okafor Peters Quinn Rossi Schmidt Tanaka Umar Vogel Weber Xu Young Ziegler Moreau Silva"
).split()
CITIES = (
    "London Paris Berlin Madrid Vienna Lisbon Oslo Prague Dublin Athens Rome Warsaw Helsinki Zurich "
    "Boston Chicago Denver Seattle Toronto Sydney Nairobi Lima Osaka Cairo Mumbai"
).split()
VILLAGES = (
    "Altdorf Bellmont Carrick Dorfen Elmsford Fernhill Grindel Hollow Innerthal Kirkby Lindau Marston "
    "Norwick Oakham Pinewood Ridgeway Stonefield Tarn Upton Westerdale"
).split()
OCCUPATIONS = (
    "teacher nurse baker engineer lawyer carpenter pilot librarian journalist dentist gardener "
    "electrician chemist architect translator plumber photographer farmer"
).split()
COMPANIES = (
    "Nordwind Bluepeak Helios Quantia Greenleaf Stahlwerk Lumina Seabridge Ironwood Fairmont Oakline "
    "Redstone Vertex Cobalt Sunfield"
).split()
PRODUCTS = (
    "lamp chair kettle backpack keyboard blanket bicycle camera headset toaster suitcase jacket "
    "notebook tent mirror guitar printer carpet helmet"
).split()
COLOURS = ("red", "blue", "green", "black", "white", "yellow")
LANGUAGES = ("English", "French", "German", "Spanish", "Italian")
CUISINES = ("Italian", "Indian", "Thai", "Greek", "Mexican", "Japanese", "Lebanese", "Korean")
MONTHS = (
    "January February March April May June July August September October November December"
).split()
NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve"
).split()
