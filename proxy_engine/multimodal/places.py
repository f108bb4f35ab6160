"""The places of media in a rendered prompt: the special tokens that a chat template writes there.

A text of the conversation may contain such a token, which would take the place of a medium.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class MediaPlaces:
    """What a chat template writes for one kind of media.

    Attributes:
        kind: The kind.
        tokens: Number of each special token that stands for one medium, by id.
        expanded: Ids of the tokens that the processor writes in their place.
    """

    kind: Kind
    tokens: Mapping[int, int]
    expanded: frozenset[int]

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        template: TokenizerWrapper,
        model_type: str,
        kind: Kind,
        expanded: frozenset[int],
    ) -> MediaPlaces:
        """Render a message with and without a medium, and compare the special tokens.

        Args:
            tokenizer: Tokenizes rendered prompts.
            template: Has the chat template.
            model_type: The architecture's name in the configuration.
            kind: The kind of media.
            expanded: Ids of the tokens that the processor writes for media of this kind.
        """
        text = {"type": "text", "text": "a"}
        special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)

        def found(parts: Sequence[Mapping[str, Any]]) -> Counter[int]:
            content = media_content(model_type, parts)
            rendered = content
            if template.has_chat_template:
                rendered = template.apply_chat_template(
                    [{"role": "user", "content": content}], tokenize=False
                )
            return _special_tokens(tokenizer, rendered, special)

        try:
            without = found([text])
            with_medium = found([{"type": kind, "number": 1}, text])
        except Exception:
            # Templates are programs and may raise anything. Then the processor has to find errors.
            return cls(kind, {}, frozenset())
        return cls(
            kind,
            {token: with_medium[token] for token in with_medium if not without[token]},
            expanded & special,
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
        found = Counter(tokenizer(text, add_special_tokens=False)["input_ids"])
        for token in {*self.tokens, *self.expanded}:
            expected = count * self.tokens.get(token, 0)
            if found[token] == expected:
                continue
            noun = _NOUNS[self.kind][count != 1]
            name = tokenizer.convert_ids_to_tokens(token)
            if found[token] > expected:
                raise PromptError(
                    f"the prompt's text contains {name!r}, which stands for {noun} to this model",
                    hint="Remove it from the text.",
                )
            raise PromptError(
                f"the model's chat template has no place for {count} {noun}",
                hint="It may take media in messages of the user only.",
            )


def _special_tokens(tokenizer: Any, text: str, special: set[int]) -> Counter[int]:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return Counter(token for token in ids if token in special)
