"""The chat template of a multimodal model, which takes messages with markers in place of media."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..conversation.messages import split_at_markers
from .messages import media_content

_PROBE = "zqtext"


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
