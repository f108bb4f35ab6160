"""Chat templates of multimodal models: messages with media, and where a rendered prompt has them.

A text of the conversation may contain the placeholder of a medium, and would take its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper
from transformers import PreTrainedTokenizerBase

from ..conversation.messages import split_at_markers
from ..errors import PromptError
from ..models.kinds import MediaKind
from ..runtime.extras import import_extra

_PROBE = "zqtext"
_TEXT = {"type": "text", "text": "a"}
_NOUNS: Mapping[MediaKind, tuple[str, str]] = {
    "image": ("image", "images"),
    "audio": ("audio recording", "audio recordings"),
}


class MediaChatTemplate:
    """Renders messages whose ``content`` is a string with markers, see ``TemplateMessages``.

    The model's template replaces a marker by a placeholder. The templates of some families
    take content as a list of parts only, others as text with placeholders.

    Args:
        tokenizer: The model's tokenizer.
        model_type: The architecture's name in the configuration.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, model_type: str) -> None:
        self._tokenizer = tokenizer
        self._model_type = model_type
        self._takes_text = self._renders(_PROBE)

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        media_kinds: Sequence[str] = (),
        **keywords: Any,
    ) -> str:
        """Return the rendered conversation.

        Args:
            messages: The messages.
            media_kinds: The kinds of the media, by the numbers of their markers.
            **keywords: Other arguments of the chat template.
        """
        counts: Counter[str] = Counter()
        contents = [self._content(message["content"], media_kinds, counts) for message in messages]
        if self._tokenizer.chat_template is None:
            # Templates that are missing take text with placeholders.
            return "\n\n".join(map(str, contents))
        written = [
            {**message, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        return str(self._tokenizer.apply_chat_template(written, tokenize=False, **keywords))

    def _content(self, content: Any, media_kinds: Sequence[str], counts: Counter[str]) -> Any:
        """Return the content of a message as the template takes it.

        Args:
            content: The content.
            media_kinds: The kinds of the media.
            counts: Media before this message by kind, which are counted on.
        """
        if not isinstance(content, str):
            return content
        parts: list[dict[str, Any]] = []
        for piece in split_at_markers(content):
            if isinstance(piece, str):
                parts.append({"type": "text", "text": piece})
            else:
                kind = media_kinds[piece]
                counts[kind] += 1
                parts.append({"type": kind, "number": counts[kind]})
        written = media_content(self._model_type, parts)
        if isinstance(written, str) and not self._takes_text:
            return [{"type": "text", "text": written}]
        return written

    def _renders(self, content: str) -> bool:
        """Whether the template writes content that is a string."""
        if self._tokenizer.chat_template is None:
            return True
        try:
            rendered = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False
            )
        except Exception:
            # Templates are programs and may raise anything.
            return False
        return content in str(rendered)


def media_content(model_type: str, parts: Sequence[Mapping[str, Any]]) -> Any:
    """Return the content of a message with media: a list of parts, or a text with placeholders.

    The form is mlx-vlm's, except that the media of a conversation are numbered throughout, and that
    recordings keep their place where the template takes lists.

    Args:
        model_type: The architecture's name in the configuration.
        parts: The content in order: ``{"type": "text", "text": ...}``, ``{"type": "image"}`` or
            ``{"type": "audio"}``. Media have a ``number``, which counts those of their kind in the
            conversation from 1.

    Raises:
        PromptError: There are more images than the model reads.
    """
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    prompt_utils = import_extra("vision", "mlx_vlm.prompt_utils", purpose="reading images")
    form = prompt_utils.MODEL_CONFIG.get(model_type.lower())
    if form is prompt_utils.MessageFormat.NUMBERED_IMAGE_TOKENS:
        return "".join(
            part["text"] if part["type"] == "text" else f"<|{part['type']}_{part['number']}|>"
            for part in parts
        )
    is_list = form is None or form.value.startswith("list")
    if is_list and (form is None or any(part["type"] == "audio" for part in parts)):
        return [
            {"type": "text", "text": part["text"], "content": part["text"]}
            if part["type"] == "text"
            else {"type": part["type"]}
            for part in parts
        ]
    counts = {kind: sum(p["type"] == kind for p in parts) for kind in ("image", "audio")}
    try:
        message = prompt_utils.get_message_json(
            model_type,
            [dict(part) for part in parts],
            skip_image_token=not counts["image"],
            skip_audio_token=not counts["audio"],
            num_images=counts["image"],
            num_audios=counts["audio"],
        )
    except ValueError as error:
        raise PromptError(str(error)) from error
    return message["content"] if isinstance(message, Mapping) else message


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

    kind: MediaKind
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
        kind: MediaKind,
        expanded: frozenset[int],
    ) -> MediaPlaces:
        """Compare a message that is rendered with and without a medium.

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
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
