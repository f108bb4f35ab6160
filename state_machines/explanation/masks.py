"""What may come next: the allowed tokens of a state, by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from state_machines.explanation.continuations import Continuation, continuations, list_html
from state_machines.grammar.node import Node
from state_machines.notebook_view import Printer, box, table_html, tokens_html
from state_machines.vocabulary import Vocabulary

_EXAMPLES = 8
_WHITESPACE = b" \t\n\r"


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """Allowed tokens of one kind.

    Attributes:
        name: The kind, such as ``"letters"``.
        count: Number of tokens.
        examples: Ids and texts of the first ones.
    """

    name: str
    count: int
    examples: tuple[tuple[int, str], ...]

    @property
    def more(self) -> str:
        """An ellipsis if there are more tokens than examples."""
        return " …" if self.count > len(self.examples) else ""


@dataclass(frozen=True, slots=True)
class MaskExplanation:
    """What may come next.

    Attributes:
        allowed: Number of allowed tokens.
        size: Number of token ids in the vocabulary.
        is_end_allowed: Whether the text is complete, so that an end token may come.
        expected: What may follow.
        groups: The allowed tokens by kind, the largest group first.
    """

    allowed: int
    size: int
    is_end_allowed: bool
    expected: tuple[Continuation, ...]
    groups: tuple[TokenGroup, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.allowed:,} of {self.size:,} tokens may come next; "
            f"the text {'may' if self.is_end_allowed else 'cannot'} end here."
        ]
        if self.expected:
            lines.append(f"May follow: {', or '.join(map(str, self.expected))}.")
        for group in self.groups:
            texts = " ".join(repr(text) for _, text in group.examples)
            lines.append(f"  {group.name} ({group.count:,}): {texts}{group.more}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Printer, _: bool) -> None:
        """Print the explanation as text, which IPython shows."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the explanation as HTML, which notebooks show."""
        end = "may" if self.is_end_allowed else "cannot"
        rows = [
            f"<div><b>{self.allowed:,}</b> of {self.size:,} tokens may come next; "
            f"the text {end} end here</div>"
        ]
        if self.expected:
            rows.append(list_html(self.expected))
        if self.groups:
            rows.append(
                table_html(
                    (f"{group.name}, {group.count:,}", tokens_html(group.examples) + group.more)
                    for group in self.groups
                )
            )
        return box(rows)


def explain_mask(
    state: Node, vocabulary: Vocabulary, mask: npt.NDArray[np.bool_]
) -> MaskExplanation:
    """Describe a mask.

    Args:
        state: The state that the mask belongs to.
        vocabulary: The tokens.
        mask: The allowed tokens: bool, shape (vocabulary.size,). None are allowed once a text has
            ended.
    """
    ids = np.flatnonzero(mask).tolist()
    by_name: dict[str, list[int]] = {}
    for token_id in ids:
        by_name.setdefault(_group(vocabulary, token_id), []).append(token_id)
    groups = tuple(
        TokenGroup(name, len(members), tuple(_example(vocabulary, i) for i in members[:_EXAMPLES]))
        for name, members in sorted(by_name.items(), key=lambda item: -len(item[1]))
    )
    return MaskExplanation(
        allowed=len(ids),
        size=vocabulary.size,
        is_end_allowed=bool(ids) and state.nullable,
        expected=continuations(state, vocabulary.special_tokens) if ids else (),
        groups=groups,
    )


def _group(vocabulary: Vocabulary, token_id: int) -> str:
    if token_id in vocabulary.end_token_ids:
        return "end tokens"
    form = vocabulary.token_bytes[token_id] or b""
    if form.startswith(Vocabulary.SPECIAL_MARK):
        return "special tokens"
    text = form.lstrip(_WHITESPACE)
    if not text:
        return "whitespace"
    first = chr(text[0])
    if first >= "\x80":
        return "beyond ASCII"
    return "letters" if first.isalpha() else "digits" if first.isdigit() else "punctuation"


def _example(vocabulary: Vocabulary, token_id: int) -> tuple[int, str]:
    form = vocabulary.token_bytes[token_id] or b""
    return token_id, form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace")
