"""The places of media in a rendered prompt, and the placeholders that a chat template writes there.

A text of the conversation may contain the same, which would take the place of a medium.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from ..errors import PromptError
from .media_tokens import Kind
from .messages import media_content

_NOUNS: Mapping[Kind, tuple[str, str]] = {
    "image": ("image", "images"),
    "audio": ("audio recording", "audio recordings"),
}
_TEXT = {"type": "text", "text": "a"}


@dataclass(frozen=True, slots=True)
class MediaPlaces:
    """The placeholders of a chat template for one kind of media.

    Attributes:
        kind: The kind.
        example: A rendered message with one medium; ``None`` if the template raises.
        tokens: Number of each special token that stands for one medium, by id.
        expanded: Special tokens that the processor writes in their place.
        pattern: Matches the text that stands for one medium, if it has no special tokens.
    """

    kind: Kind
    example: str | None = None
    tokens: Mapping[int, int] | None = None
    expanded: frozenset[int] = frozenset()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        template: TokenizerWrapper,
        model_type: str,
        kind: Kind,
        expanded: frozenset[int],
    ) -> MediaPlaces:
        """Compare a rendered message with a medium to one without.

        Args:
            tokenizer: Tokenizes rendered prompts.
            template: Has the chat template.
            model_type: The architecture's name in the configuration.
            kind: The kind of media.
            expanded: Ids of the tokens that the processor writes for media of this kind.
        """

        def render(*parts: Mapping[str, Any]) -> str:
            message = {"role": "user", "content": media_content(model_type, parts)}
            return str(template.apply_chat_template([message], tokenize=False))

        try:
            example, without = render({"type": kind, "number": 1}, _TEXT), render(_TEXT)
        except Exception:
            # Templates are programs and may raise anything. Then the processor has to find errors.
            return cls(kind)
        special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
        counts, others = (
            Counter(token for token in _token_ids(tokenizer, text) if token in special)
            for text in (example, without)
        )
        tokens = {token: count for token, count in counts.items() if not others[token]}
        return cls(
            kind,
            example,
            tokens,
            expanded & special,
            None if tokens else _pattern(example, without),
        )

    def check(self, tokenizer: Any, text: str, count: int) -> None:
        """Check that a rendered prompt has as many places as there are media.

        Args:
            tokenizer: Tokenizes rendered prompts.
            text: The rendered prompt.
            count: Number of media of this kind.

        Raises:
            PromptError: It has more or fewer.
        """
        if self.pattern is not None:
            found = self.pattern.findall(text)
            self._compare(found[0] if found else "", len(found), count, count)
        if self.tokens is None:
            return
        numbers = Counter(_token_ids(tokenizer, text))
        for token in {*self.tokens, *self.expanded}:
            name = tokenizer.convert_ids_to_tokens(token)
            self._compare(name, numbers[token], count * self.tokens.get(token, 0), count)

    def _compare(self, name: str, found: int, expected: int, count: int) -> None:
        if found > expected:
            raise PromptError(
                f"the prompt's text contains {name!r}, which stands for an {_NOUNS[self.kind][0]} "
                "to this model",
                hint="Remove it from the text.",
            )
        if found < expected:
            noun = _NOUNS[self.kind][count != 1]
            raise PromptError(
                f"the model's chat template has no place for {count} {noun}",
                hint="It may take media in messages of the user only.",
            )


def _token_ids(tokenizer: Any, text: str) -> Sequence[int]:
    ids: Sequence[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _pattern(example: str, without: str) -> re.Pattern[str] | None:
    """Return a pattern of the text that only the example has; numbers in it may be any."""
    start = _common_length(example, without)
    end = _common_length(example[start:][::-1], without[start:][::-1])
    written = example[start : len(example) - end].strip()
    if not written:
        return None
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(written)))


def _common_length(left: str, right: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = zip(left, right, strict=False)
    shorter = min(len(left), len(right))
    return next((n for n, (one, other) in enumerate(pairs) if one != other), shorter)
