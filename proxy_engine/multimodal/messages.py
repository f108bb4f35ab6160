"""Messages with media, as the chat templates of model families take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import PromptError
from ..runtime.extras import import_extra


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
