"""The prompts of requests as token ids, with the media that the model reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from state_machines import Vocabulary
from state_machines.tool_calls import Delimiters

from ..conversation.chat_template import chat_template
from ..conversation.content import AudioContent, ImageContent
from ..conversation.control_tokens import check_length, is_marked
from ..conversation.messages import RawPrompt, TemplateMessages, template_messages
from ..conversation.prompts import EncodedPrompt, Prompt, PromptStyle, message_boundaries
from ..conversation.tool_format_detection import is_open
from ..errors import MediaError, RequestCancelledError
from ..media import MediaOptions
from ..models.loading import LoadedModel
from ..options.generation import GenerationOptions
from ..prompt_cache.prompt_caches import PromptCaches

if TYPE_CHECKING:
    from ..media.audio import LoadedAudio
    from ..media.images import LoadedImage
    from ..multimodal.processor import MultimodalProcessor

_MAX_LARGE_IMAGES = 4
"""Images of ``max_image_pixels`` that a prompt may have: all are in memory together."""

_MAX_CONNECTIONS = 8
"""URLs of a prompt that are read at the same time."""


@dataclass(eq=False)
class PromptEncoder:
    """Encodes the prompts of one model. Safe to use from several threads.

    Attributes:
        loaded: The model.
        vocabulary: Its vocabulary.
        tokenizer_lock: Held while the tokenizer is used.
        caches: Determine whether a prompt needs message boundaries, and can be scored.
        media: Limits of images and recordings.
    """

    loaded: LoadedModel
    vocabulary: Vocabulary
    tokenizer_lock: threading.Lock
    caches: PromptCaches
    media: MediaOptions

    def __post_init__(self) -> None:
        # Pixels take much more memory than files: one request at a time decodes its media.
        self._media_lock = threading.Lock()
        self.context_length = self.loaded.context_length

    def encode(
        self,
        prompt: Prompt | EncodedPrompt,
        style: PromptStyle,
        options: GenerationOptions,
        cancelled: threading.Event,
    ) -> EncodedPrompt:
        """Encode a prompt.

        Args:
            prompt: The prompt.
            style: How messages are rendered.
            options: The options of the request.
            cancelled: Ends the processing of media.

        Raises:
            PromptTooLongError: The prompt leaves no room in the model's context.
            PromptError: The prompt is invalid.
            MissingExtraError: Its media require a package that is not installed.
            RequestCancelledError: ``cancelled`` was set.
        """
        if not isinstance(prompt, EncodedPrompt):
            prompt = self._encode(prompt, style, options, cancelled)
        check_length(len(prompt.token_ids), self.context_length)
        if options.exact_choices:
            self.caches.check_scoring(len(prompt.token_ids))
        return prompt

    def _encode(
        self,
        prompt: Prompt,
        style: PromptStyle,
        options: GenerationOptions,
        cancelled: threading.Event,
    ) -> EncodedPrompt:
        loaded, lock = self.loaded, self.tokenizer_lock
        tokenizer, processor = loaded.tokenizer, loaded.processor
        limits: dict[str, Any] = {"context_length": self.context_length, "lock": lock}
        with lock:
            template = chat_template(tokenizer)
            control, separator = template.control_tokens, template.part_separator
        if isinstance(prompt, RawPrompt):
            encode = partial(control.encode, **limits)
            return EncodedPrompt(prompt.token_ids(tokenizer, self.vocabulary.size, encode))
        reads = frozenset[str]() if processor is None else processor.reads
        try:
            conversation = template_messages(prompt, reads, options.media_in_history, separator)
        except MediaError as error:
            if loaded.is_multimodal and processor is None:
                raise loaded.media_error() from error
            raise
        if conversation.media and processor is not None:
            encoded = self._with_media(conversation, processor, style, cancelled)
        else:
            encoded = EncodedPrompt(style.encode(conversation.messages, tokenizer, **limits))
        if not self.caches.needs_checkpoints(len(encoded.token_ids) + options.token_limit):
            return encoded
        return replace(encoded, boundaries=self._boundaries(conversation, encoded, style))

    def opened(self, token_ids: Sequence[int], markers: Iterable[Delimiters]) -> Delimiters | None:
        """Return the markers whose text a prompt opens; ``None``: it opens none."""
        with self.tokenizer_lock:
            tokenizer = self.loaded.tokenizer
            return next((pair for pair in markers if is_open(tokenizer, token_ids, pair)), None)

    def next_turn(self, style: PromptStyle, message: str) -> Delimiters:
        """Return the texts between an answer and the next one, which a message asks for."""
        with self.tokenizer_lock:
            return style.next_turn(message, self.loaded.tokenizer)

    def spells_control_tokens(self, text: str) -> bool:
        """Whether a text spells control tokens, which a prompt can have and a grammar cannot."""
        with self.tokenizer_lock:
            control = chat_template(self.loaded.tokenizer).control_tokens
        return is_marked(control.data(text))

    def _with_media(
        self,
        conversation: TemplateMessages,
        processor: MultimodalProcessor,
        style: PromptStyle,
        cancelled: threading.Event,
    ) -> EncodedPrompt:
        """Encode a conversation whose media the model reads."""
        # Deferred: prompts of text need no decoders.
        from ..media.audio import load_audio  # noqa: PLC0415
        from ..media.images import load_image  # noqa: PLC0415

        count = sum(isinstance(medium, ImageContent) for medium in conversation.media)
        self._check_limit("the messages have {:,} images", count, "max_images")
        files, tokenizer = _files(conversation, self.media), self.loaded.tokenizer
        with self.tokenizer_lock:
            text = style.render(conversation.messages, tokenizer, conversation.media_kinds)
            control = chat_template(tokenizer).control_tokens
        images: list[LoadedImage] = []
        recordings: list[LoadedAudio] = []
        pixels, seconds = 0, 0.0
        with self._media_lock:
            for file, where in zip(files, conversation.locations, strict=True):
                if cancelled.is_set():
                    raise RequestCancelledError("the request was cancelled")
                with _located(where):
                    if isinstance(file, ImageContent):
                        images.append(load_image(file, self.media))
                        pixels += images[-1].image.width * images[-1].image.height
                    else:
                        recordings.append(load_audio(file, self.media, processor.sample_rate))
                        seconds += recordings[-1].duration
                    self._check_limit("the images have {:,} pixels", pixels, "max_image_pixels")
                    self._check_limit("the recordings take {:,.0f} s", seconds, "max_audio_seconds")
            return processor.encode(text, images, recordings, control)

    def _check_limit(self, total: str, value: float, limit: str) -> None:
        """Raise if the media of a prompt exceed a limit of :class:`MediaOptions` together.

        Args:
            total: Names the value.
            value: Of all media so far.
            limit: The name of the limit.
        """
        times = _MAX_LARGE_IMAGES if limit == "max_image_pixels" else 1
        maximum = times * getattr(self.media, limit)
        if value > maximum:
            factor = f"{times} times " if times > 1 else ""
            raise MediaError(
                f"{total.format(value)} together; the maximum is {maximum:,.0f}",
                limit=limit,
                hint=f"The limit is {factor}{limit} of MediaOptions.",
            )

    def _boundaries(
        self, conversation: TemplateMessages, encoded: EncodedPrompt, style: PromptStyle
    ) -> tuple[int, ...]:
        """Return the lengths at which other prompts may diverge.

        Prompts are compared as rendered, with one placeholder for each medium. Other prompts may
        also diverge behind the last medium.
        """

        def encode(messages: Sequence[Mapping[str, Any]]) -> list[int]:
            kinds = conversation.media_kinds
            return style.encode(messages, self.loaded.tokenizer, kinds, lock=self.tokenizer_lock)

        ids = encoded.token_ids
        rendered = encode(conversation.messages) if conversation.media else ids
        growth = len(ids) - len(rendered)
        found = {end for _, end in encoded.media_spans[-1:]}
        for length in message_boundaries(conversation.messages, rendered, encode):
            if ids[:length] == rendered[:length]:
                found.add(length)
            elif ids[length + growth :] == rendered[length:]:
                found.add(length + growth)
        return tuple(sorted(length for length in found if length < len(ids)))


def _files(
    conversation: TemplateMessages, options: MediaOptions
) -> list[ImageContent | AudioContent]:
    """Return the media with their data. URLs are read at the same time."""
    from ..media.sources import read_source  # noqa: PLC0415

    def read(medium: ImageContent | AudioContent, where: str) -> ImageContent | AudioContent:
        with _located(where):
            return type(medium)(data=read_source(medium, options))

    media, locations = conversation.media, conversation.locations
    if sum(medium.url is not None for medium in media) < 2:
        return list(map(read, media, locations))
    with ThreadPoolExecutor(_MAX_CONNECTIONS) as threads:
        return list(threads.map(read, media, locations))


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Add a location in the prompt to the errors of media."""
    try:
        yield
    except MediaError as error:
        raise error.at(where) from error
