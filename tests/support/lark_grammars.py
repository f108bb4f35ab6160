"""Random Lark grammars, and texts that are near their languages."""

from __future__ import annotations

from random import Random

from state_machines import GrammarStateMachine

__all__ = ["random_grammar", "random_texts"]

TERMINALS = (
    *("/[a-c]+/", "/[ab]/", '"ab"', '"a"i "b"?', '"if"', "/[a-z]+/ & ~/if|ab/", "/a+b/"),
    *('"b".."c" /c*/', "/[0-9]+(\\.[0-9]+)?/", "/'[^']*'/", '("a" | "ba" | "b" /c?/)+'),
)
NULLABLE = "/c?/"
"""With it, llguidance also ignores text before the first lexeme."""

IGNORED_TOO = ('" "', "/ +/", "/ ?a/")
"""Terminals that match ignored text. Where both match, llguidance ignores the text."""

LITERALS = ('"a"', '"b"', '"ab"', '"if"', '"("', '")"', '","', "/[ab]+/", "/c+/")
IGNORED = ("/ +/", '" "', "/ +/ | /#[^\\n]*\\n/")
LETTERS = "aabbccif0.1' (),#\n"


def random_grammar(random: Random, *, beside_ignored: tuple[str, ...] = ()) -> str:
    """Return a grammar with up to four rules and four terminals.

    Args:
        random: The source of randomness.
        beside_ignored: More terminals, for a grammar with ignored text.
    """
    terminals = [f"T{n}" for n in range(random.randint(0, 4))]
    rules = ["start", *(f"r{n}" for n in range(random.randint(0, 3)))]
    ignores = bool(beside_ignored) or random.random() < 0.6
    bodies = (*TERMINALS, *beside_ignored) if ignores else (*TERMINALS, NULLABLE)
    lines = [f"{name}: {random.choice(bodies)}" for name in terminals]
    for index, name in enumerate(rules):
        names = [*rules[index + 1 :], *terminals]
        branches = [_series(random, names) for _ in range(random.randint(1, 3))]
        if random.random() < 0.2:
            branches.append(f"{random.choice(LITERALS)} {name} {random.choice(LITERALS)}")
        lines.append(f"{name}: {' | '.join(branches)}")
    if ignores:
        lines.append(f"%ignore {random.choice(IGNORED)}")
    return "\n".join(lines)


def _series(random: Random, names: list[str]) -> str:
    return " ".join(_item(random, names) for _ in range(random.randint(1, 3)))


def _item(random: Random, names: list[str], depth: int = 0) -> str:
    if depth < 2 and random.random() < 0.15:
        inner = f"({_item(random, names, depth + 1)} | {_item(random, names, depth + 1)})"
    else:
        inner = random.choice([*LITERALS, *names, *names])
    return inner + random.choice(["", "", "", "", "?", "*", "+", "{1,2}", "~2"])


def random_texts(random: Random, machine: GrammarStateMachine | None, count: int) -> list[bytes]:
    """Return texts: of the machine's language, beginnings of these, and mutations of both."""
    texts: list[bytes] = [b""]
    for _ in range(count):
        text = bytearray()
        if machine is None or random.random() < 0.2:
            text += "".join(random.choices(LETTERS, k=random.randint(1, 6))).encode()
        else:
            state = machine.start
            for _ in range(random.randint(1, 12)):
                letters = [ord(c) for c in set(LETTERS) if state.first_bytes >> ord(c) & 1]
                if not letters:
                    break
                letter = random.choice(sorted(letters))
                text.append(letter)
                state = state.derivative(letter)
        if text and random.random() < 0.4:
            at = random.randrange(len(text))
            match random.randrange(3):
                case 0:
                    del text[at]
                case 1:
                    text.insert(at, ord(random.choice(LETTERS)))
                case _:
                    text[at] = ord(random.choice(LETTERS))
        texts.append(bytes(text))
    return texts
