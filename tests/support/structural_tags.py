"""Structural tags for tests: some of each kind, and random ones."""

from __future__ import annotations

from random import Random
from typing import Any

from state_machines import Vocabulary
from state_machines.root import RootStateMachine

__all__ = [
    "ANY",
    "CALLS",
    "CITY",
    "DIGITS",
    "LETTERS",
    "SEPARATED",
    "TRIGGERED",
    "const",
    "machine",
    "random_format",
    "tag",
]

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def machine(content: dict[str, Any], vocabulary: Vocabulary | None = None) -> RootStateMachine:
    tag = {"type": "structural_tag", "format": content}
    return RootStateMachine.from_structural_tag(tag, vocabulary)


def const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def tag(begin: str, content: dict[str, Any], end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


ANY = {"type": "any_text"}
DIGITS = {"type": "regex", "pattern": "[0-9]+"}
CALLS = [tag("<f=a>", DIGITS, "</f>"), tag("<f=b>", const("x"), "</f>")]
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": CALLS}
SEPARATED = {"type": "tags_with_separator", "tags": CALLS, "separator": ","}

LETTERS = "ab<"
STRINGS = ("a", "b", "<", "ab", "<a", "ba", "aab")
DEPTH = 3


def random_format(random: Random, depth: int = DEPTH) -> dict[str, Any]:
    """Return a random format over few letters, so that random texts often match."""
    leaves = ("const_string", "any_text", "regex", "grammar")
    inner = [
        *("sequence", "or", "tag", "tag", "triggered_tags", "triggered_tags"),
        *("tags_with_separator", "optional", "plus", "star", "repeat", "dispatch"),
    ]
    kind = random.choice(leaves if depth == 0 or random.random() < 0.2 else inner)
    content = lambda: random_format(random, depth - 1)  # noqa: E731
    match kind:
        case "const_string":
            return {"type": kind, "value": random.choice(("", *STRINGS))}
        case "any_text":
            limit = random.choice((None, None, 2))
            return {"type": kind, "excludes": strings(random, 2), "max_chars": limit}
        case "regex":
            return {"type": kind, "pattern": random.choice(("a+", "[ab]", "(ab|b)*", "<?a"))}
        case "grammar":
            return {"type": kind, "grammar": 'root ::= "a" root "b" | "<"'}
        case "sequence" | "or":
            return {"type": kind, "elements": [content() for _ in range(random.randint(1, 3))]}
        case "tag":
            return random_tag(random, depth - 1, random.choice(STRINGS))
        case "triggered_tags":
            triggers = random.sample(STRINGS, random.choice((1, 1, 2)))
            begins = [t + random.choice(("", "b", "<")) for t in triggers]
            return {
                "type": kind,
                "triggers": triggers,
                "tags": [random_tag(random, depth - 1, begin) for begin in begins],
                "excludes": strings(random, 1),
                **flags(random),
            }
        case "tags_with_separator":
            tags = [random_tag(random, depth - 1, random.choice(STRINGS)) for _ in range(2)]
            separator = random.choice(("", "a", "<"))
            return {"type": kind, "tags": tags, "separator": separator, **flags(random)}
        case "repeat":
            low = random.randint(0, 2)
            high = random.choice((-1, low, low + 1))
            return {"type": kind, "min": low, "max": high, "content": content()}
        case "dispatch":
            patterns = random.sample(STRINGS, random.choice((1, 2)))
            return {
                "type": kind,
                "rules": [[pattern, content()] for pattern in patterns],
                "loop": random.random() < 0.5,
                "excludes": strings(random, 1),
            }
    return {"type": kind, "content": content()}


def random_tag(random: Random, depth: int, begin: str) -> dict[str, Any]:
    end: Any = random.choice(("a", "b", "<", "ab", ["a", "<b"], ["b", ""]))
    return {"type": "tag", "begin": begin, "content": random_format(random, depth), "end": end}


def strings(random: Random, most: int) -> list[str]:
    return random.sample(STRINGS, random.choice((0, 0, most)))


def flags(random: Random) -> dict[str, bool]:
    return {name: random.random() < 0.4 for name in ("at_least_one", "stop_after_first")}
