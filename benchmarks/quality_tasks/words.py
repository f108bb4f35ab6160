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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Ada Ben Clara David Elena Farid Grace Hugo Ines Jonas Karin Liam Maria Nadia Oscar Paula "
    "Quentin Rosa Samir Tara Ulrich Vera Walter Yusuf Zoe Amara Boris Chloe Dmitri Emma"
)
LAST_NAMES = _words(
    "Adams Bauer Costa Duval Eriksen Fischer Garcia Hansen Ibrahim Jensen Keller Lopez Martin "
    "Novak Okafor Peters Quinn Rossi Schmidt Tanaka Umar Vogel Weber Xu Young Ziegler Moreau "
    "Silva"
)
CITIES = _words(
    "London Paris Berlin Madrid Vienna Lisbon Oslo Prague Dublin Athens Rome Warsaw Helsinki "
    "Zurich Boston Chicago Denver Seattle Toronto Sydney Nairobi Lima Osaka Cairo Mumbai"
)
VILLAGES = _words(
    "Altdorf Bellmont Carrick Dorfen Elmsford Fernhill Grindel Hollow Innerthal Kirkby Lindau "
    "Marston Norwick Oakham Pinewood Ridgeway Stonefield Tarn Upton Westerdale"
)
OCCUPATIONS = _words(
    "teacher nurse baker engineer lawyer carpenter pilot librarian journalist dentist gardener "
    "electrician chemist architect translator plumber photographer farmer"
)
COMPANIES = _words(
    "Nordwind Bluepeak Helios Quantia Greenleaf Stahlwerk Lumina Seabridge Ironwood Fairmont "
    "Oakline Redstone Vertex Cobalt Sunfield"
)
PRODUCTS = _words(
    "lamp chair kettle backpack keyboard blanket bicycle camera headset toaster suitcase jacket"
    " notebook tent mirror guitar printer carpet helmet"
)
COLOURS = ("red", "blue", "green", "black", "white", "yellow")
LANGUAGES = ("English", "French", "German", "Spanish", "Italian")
CUISINES = ("Italian", "Indian", "Thai", "Greek", "Mexican", "Japanese", "Lebanese", "Korean")
MONTHS = _words(
    "January February March April May June July August September October November December"
)
NUMBER_WORDS = _words("zero one two three four five six seven eight nine ten eleven twelve")
