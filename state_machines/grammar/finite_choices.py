"""The finite choice that a state begins with: enumerations, Booleans, small ranges, tool names.

A state is written as a union of ``option · continuation``: each option is a byte string, and the
states after the options may differ. Text that precedes the choice does not hide it: forced text
becomes a part of every option, and optional whitespace doubles the options.

An option does not extend beyond one value. The end of an array and the name of a property are no
choices in this sense: they are structure, not content.

The options are written in one spelling. A character that JSON need not escape is not escaped, and a
number has no zeros after its last digit, so the union of the restricted states can be a proper
subset of the state's language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from state_machines.budgets import derivative_budget, spend
from state_machines.caches import WeakKeyLruCache
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.configurations import Stack, joined
from state_machines.grammar.encoding import NUMBER, EncodedText
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    Branch,
    Concatenation,
    Literal,
    Repetition,
    SymbolNode,
    Union,
    concatenation,
    literal,
)
from state_machines.grammar.nodes import union as union_of
from state_machines.grammar.symbols import bytes_in, code_points
from state_machines.grammar.word_lists import ListedText, ListedTexts
from state_machines.limits import LIMITS

_CHOICE_OPTIONS = 256
"""Options of a finite choice."""

_CHOICE_BYTES = 512
"""Bytes of an option, with the forced text before it."""

_STATES_WITHOUT_CHOICE = 1 << 14
"""States that are cached as beginning with no finite choice."""

_LISTED_CHOICES = 1 << 13
"""Words of lexemes that are stored, in all."""

_WHITESPACE = b" \t\n\r"
_CONTENT = re.compile(rb"[0-9A-Za-z\x80-\xfe]")
_NAME_BYTES = re.compile(rb"[0-9A-Za-z_\-\x80-\xfe]")
_OTHER_SPELLING = re.compile(r".*(\.\d*0|[eE].*)|-0(\.0*)?", re.DOTALL)
"""Spellings of a number, or of its rest, beside the shortest decimal."""

_ZERO = code_points("0")


@dataclass(frozen=True, slots=True)
class ChoiceOption:
    """An option of a finite choice.

    Attributes:
        text: The bytes of the option from the state of the choice on.
        start: Where the option itself begins in ``text``, after whitespace and forced text.
        stop: Where it ends in ``text``, before text that all options end with.
        state: The state of the choice, restricted to this option: ``text`` and its continuation.
    """

    text: bytes
    start: int
    stop: int
    state: Node

    @property
    def label(self) -> bytes:
        """The option itself."""
        return self.text[self.start : self.stop]


_WITHOUT_CHOICE: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_STATES_WITHOUT_CHOICE)
_WORDS: WeakKeyLruCache[Node, tuple[bytes, ...]] = WeakKeyLruCache(_LISTED_CHOICES)


def finite_choice(state: Node) -> tuple[ChoiceOption, ...] | None:
    """Return the options of the finite choice that a state begins with.

    That a state has no choice is cached, as are the words of the lexemes of choices.

    Args:
        state: A state that is not dead.

    Returns:
        Two to ``_CHOICE_OPTIONS`` options; ``None`` if the state begins with free text, with
        more options, with structure, or if finding them takes more than ``LIMITS.choice_steps``
        steps.
    """
    if _WITHOUT_CHOICE.get(state):
        return None
    try:
        with derivative_budget(LIMITS.choice_steps):
            options = _options(state)
    except GrammarBudgetError as error:
        # Not known: each token is sampled, which is correct for every choice. That holds for good
        # if the limit is this function's own, but not if an enclosing budget or stack was smaller.
        if error.budget == LIMITS.choice_steps:
            _WITHOUT_CHOICE.put(state, True)
        return None
    if options is None:
        _WITHOUT_CHOICE.put(state, True)
    return options


def _options(state: Node) -> tuple[ChoiceOption, ...] | None:
    leaves = _leaves(state)
    if leaves is None:
        return None
    by_text: dict[bytes, tuple[_Leaf, list[Node]]] = {}
    for leaf in leaves:
        by_text.setdefault(leaf.text, (leaf, []))[1].append(joined(leaf.rest))
    rests = {text: union_of(rests) for text, (_, rests) in by_text.items()}
    if not 2 <= len(rests) <= _CHOICE_OPTIONS or _is_ambiguous(rests):
        return None
    common = _common_ends(leaves) if all(leaf.is_marker for leaf in leaves) else (0, 0)
    return tuple(
        ChoiceOption(
            text,
            leaf.start + common[0],
            len(text) - common[1],
            concatenation(literal(text), rests[text]),
        )
        # The order of the members of a union varies, and draws should be reproducible.
        for text, (leaf, _) in sorted(by_text.items())
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A word that a state can begin with.

    Attributes:
        text: The word, and what precedes it.
        start: Where the word begins in ``text``.
        rest: What follows it.
        is_marker: Whether the word is literal text, which may extend beyond the option itself, as
            the head of a tool call does.
    """

    text: bytes
    start: int
    rest: Stack
    is_marker: bool = False


def _leaves(state: Node) -> list[_Leaf] | None:
    """Return the words that a state begins with; ``None`` if they are not a finite choice.

    Without a union, a choice is among the words of one node. The members of a union are followed up
    to the first word that contains a letter or a digit; what follows them may differ.
    """
    found: list[_Leaf] = []
    pending: list[tuple[Node, Stack, bytes, bool]] = [(state, None, b"", False)]
    while pending:
        spend()
        node, rest, text, is_in_union = pending.pop()
        if len(text) > _CHOICE_BYTES or len(found) > _CHOICE_OPTIONS:
            return None
        while isinstance(node, Concatenation):
            rest, node = (node.tail, rest), node.head
        if node is EPSILON:
            if rest is None:
                return None
            pending.append((*rest, text, is_in_union))
        elif isinstance(node, ListedTexts) and (entries := node.entries()):
            # The heads of calls, each with its own continuation.
            members = [concatenation(literal(word), end) for word, end in entries]
            pending += [(member, rest, text, True) for member in reversed(members)]
        elif words := _words(node):
            is_single = is_in_union or len(words) == 1
            if not is_single and _is_fragment(words, rest):
                return None
            has_content = is_in_union and any(map(_CONTENT.search, words))
            if has_content or not (is_single or _is_layout(words)):
                is_marker = is_in_union and isinstance(node, Literal)
                start = _label_start(text)
                found += [_Leaf(text + word, start, rest, is_marker) for word in words]
            else:
                pending += [(EPSILON, rest, text + word, is_in_union) for word in reversed(words)]
        elif isinstance(node, Union) and (is_in_union or not node.nullable):
            pending += [(member, rest, text, True) for member in reversed(node.members)]
        elif (step := _forced_step(node)) is not None:
            pending.append((step[1], rest, text + step[0], is_in_union))
        else:
            return None
    return found


def _is_fragment(words: Iterable[bytes], stack: Stack) -> bool:
    """Whether words are the rest of a character of a text: of its UTF-8 form or of its escape."""
    while stack is not None and isinstance(stack[0], Concatenation):
        stack = (stack[0].head, (stack[0].tail, stack[1]))
    is_in_string = (
        stack is not None and isinstance(stack[0], EncodedText) and stack[0].spelling.escapes
    )
    return is_in_string or any(0x80 <= word[0] < 0xC0 for word in words if word)


def _is_layout(words: Iterable[bytes]) -> bool:
    """Whether words differ in whitespace only."""
    return len({word.strip(_WHITESPACE) for word in words}) == 1


def _label_start(text: bytes) -> int:
    """Return where the label of a word behind ``text`` begins: at its opening quote, if any."""
    return len(text) - text.endswith(b'"')


def _forced_step(node: Node) -> tuple[bytes, Node] | None:
    """Return text that all words of a node begin with, and the node after it; maybe no text."""
    if isinstance(node, Literal):
        return node.text, EPSILON
    if isinstance(node, Lazy):
        is_opaque = node.is_composite or isinstance(node, EncodedText)
        return None if is_opaque else (b"", node.expansion)
    if node.nullable:
        return None
    if isinstance(node, ListedText | ListedTexts) and node.leading_text:
        return node.leading_text, node.compute_word_derivative(node.leading_text)
    if isinstance(node, Branch | SymbolNode) and len(node.transitions) == 1:
        symbols, target = node.transitions[0]
        if not symbols & (symbols - 1):
            return bytes(bytes_in(symbols)), target
    return None


def _words(node: Node) -> tuple[bytes, ...]:
    """Return all words of a node; none if they are too many, or if the node is structure.

    A lazy node has none: it may be the rest of a whole answer, and its expansion is to be split.
    """
    if isinstance(node, Literal):
        return (node.text,)
    if isinstance(node, Lazy) and not isinstance(node, EncodedText):
        return ()
    known = _WORDS.get(node)
    if known is None:
        known = tuple(_find_words(node) or ())
        _WORDS.put(node, known, 1 + len(known))
    return known


def _find_words(start: Node) -> list[bytes] | None:
    found: dict[bytes, None] = {}
    pending: list[tuple[bytes, Node, Stack]] = [(b"", start, None)]
    while pending:
        spend()
        text, node, stack = pending.pop()
        while isinstance(node, Concatenation):
            stack, node = (node.tail, stack), node.head
        if node is EPSILON:
            if stack is not None:
                pending.append((text, *stack))
                continue
            found[text] = None
            if len(found) > _CHOICE_OPTIONS:
                return None
            continue
        following = _next_parts(node)
        if following is None or len(text) > _CHOICE_BYTES:
            return None
        pending.extend((text + word, target, stack) for word, target in reversed(following))
    return list(found)


def _next_parts(node: Node) -> list[tuple[bytes, Node]] | None:
    """Return texts that words of a node begin with, and the nodes after them; ``None``: too many.

    The words are ``text · word`` for each text and each word of the node after it.
    """
    if isinstance(node, EncodedText):
        words = _spelled_words(node)
        return None if words is None else [(word, EPSILON) for word in words]
    step = _forced_step(node)
    if step is not None:
        return [step]
    if isinstance(node, Union):
        return [(b"", member) for member in node.members]
    if isinstance(node, Branch | SymbolNode | ListedText | ListedTexts | Repetition):
        if isinstance(node, Repetition) and node.max_count is None:
            return None
        parts: list[tuple[bytes, Node]] = [(b"", EPSILON)] if node.nullable else []
        for symbols, target in node.transitions:
            parts += [(bytes((byte,)), target) for byte in bytes_in(symbols)]
        return parts
    return None


def _spelled_words(node: EncodedText) -> list[bytes] | None:
    """Return the words of an encoded text, each in one spelling; ``None`` if they are too many."""
    text, is_number = node.text, node.spelling is NUMBER
    if not is_number and (text.max_length is None or text.max_length > _CHOICE_BYTES):
        return None
    # Every beginning is that of a word, so a layer has no more members than there are words. A
    # number has few spellings that are skipped.
    limit = _CHOICE_OPTIONS * (4 if is_number else 1)
    words: list[str] = []
    layer = [("", text)]
    for _ in range(_CHOICE_BYTES):
        words += [word for word, rest in layer if rest.nullable]
        size = sum(len(symbols) for _, rest in layer for symbols, _ in rest.transitions)
        spend(1 + size // 8)
        if len(words) + size > limit:
            return None
        layer = [
            (word + chr(point), target)
            for word, rest in layer
            for symbols, target in rest.transitions
            if not (is_number and target is rest and symbols == _ZERO)
            for point in symbols
        ]
        if not layer:
            break
    else:
        return None
    if is_number:
        words = [word for word in words if not _OTHER_SPELLING.fullmatch(word)]
    return [node.spell(word) for word in words]


def _is_ambiguous(rests: dict[bytes, Node]) -> bool:
    """Whether some text begins with two of the options."""
    ordered = sorted(rests)
    for number, text in enumerate(ordered):
        for longer in _beginning_with(text, ordered, number + 1):
            if rests[text].compute_word_derivative(longer[len(text) :]) is not EMPTY:
                return True
    return False


def _beginning_with(text: bytes, ordered: list[bytes], start: int) -> Iterator[bytes]:
    for number in range(start, len(ordered)):
        if not ordered[number].startswith(text):
            return
        yield ordered[number]


def _common_ends(leaves: list[_Leaf]) -> tuple[int, int]:
    """Return the lengths of the text before and after the names in the heads of calls."""
    words = [leaf.text[leaf.start :] for leaf in leaves]
    before = _common_length(words)
    while before and all(_NAME_BYTES.match(word, before - 1) for word in words):
        before -= 1
    backwards = [word[before:][::-1] for word in words]
    after = _common_length(backwards)
    while after and all(_NAME_BYTES.match(word, after - 1) for word in backwards):
        after -= 1
    return before, after


def _common_length(words: list[bytes]) -> int:
    first, last = min(words), max(words)
    shortest = min(map(len, words))
    return next((n for n in range(shortest) if first[n] != last[n]), shortest)
