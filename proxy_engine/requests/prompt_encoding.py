"""The prompts of requests as token ids, with the media that the model reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from state_machines import Vocabulary

from ..conversation.chat_template import chat_template
from ..conversation.content import AudioContent, ImageContent
from ..conversation.encoded_prompt import EncodedPrompt
from ..conversation.messages import TemplateMessages, template_messages
from ..conversation.prompts import Prompt, PromptStyle, message_boundaries
from ..conversation.raw_prompt import RawPrompt
from ..errors import MediaError, RequestCancelledError
from ..media.audio import LoadedAudio, load_audio
from ..media.images import LoadedImage, load_image
from ..media.options import MediaOptions
from ..media.sources import read_source
from ..models.loading import LoadedModel
from ..multimodal.processor import MultimodalProcessor
from ..options.generation import GenerationOptions
from ..prompt_cache.prompt_caches import PromptCaches

_T = TypeVar("_T")

_MAX_LARGE_IMAGES = 4
"""Images of ``max_image_pixels`` that a prompt may have: all are in memory together."""

_MAX_CONNECTIONS = 8
"""URLs of a prompt that are read at the same time."""


class PromptEncoder:
    """Encodes the prompts of one model. Safe to use from several threads.

    Args:
        loaded: The model.
        vocabulary: Its vocabulary.
        tokenizer_lock: Held while the tokenizer is used.
        caches: Determine whether a prompt needs message boundaries.
        media: Limits of images and recordings.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        vocabulary: Vocabulary,
        tokenizer_lock: threading.Lock,
        caches: PromptCaches,
        media: MediaOptions,
    ) -> None:
        self._loaded = loaded
        self._vocabulary = vocabulary
        self._tokenizer_lock = tokenizer_lock
        self._caches = caches
        self._media = media
        # Pixels take much more memory than files: one request at a time decodes its media.
        self._media_lock = threading.Lock()

    def encode(
        self,
        prompt: Prompt | EncodedPrompt,
        style: PromptStyle,
        options: GenerationOptions,
        cancelled: threading.Event,
    ) -> tuple[EncodedPrompt, tuple[int, ...]]:
        """Return an encoded prompt, and the lengths at which other prompts may diverge from it.

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
        tokenizer = self._loaded.tokenizer
        limits: dict[str, Any] = {
            "context_length": self._loaded.context_length,
            "lock": self._tokenizer_lock,
        }
        if isinstance(prompt, EncodedPrompt):
            return prompt, ()
        if isinstance(prompt, RawPrompt):
            with self._tokenizer_lock:
                control = chat_template(tokenizer).control_tokens
            encode = partial(control.encode, **limits)
            return EncodedPrompt(prompt.token_ids(tokenizer, self._vocabulary.size, encode)), ()
        processor = self._loaded.processor
        conversation = self._conversation(prompt, options)
        if conversation.media and processor is not None:
            encoded = self._with_media(conversation, processor, style, cancelled)
        else:
            encoded = EncodedPrompt(style.encode(conversation.messages, tokenizer, **limits))
        if not self._caches.needs_checkpoints(len(encoded.token_ids) + options.token_limit):
            return encoded, ()
        return encoded, self._boundaries(conversation, encoded, style)

    def _conversation(self, prompt: Prompt, options: GenerationOptions) -> TemplateMessages:
        processor = self._loaded.processor
        reads = frozenset[str]() if processor is None else processor.reads
        with self._tokenizer_lock:
            separator = chat_template(self._loaded.tokenizer).part_separator
        try:
            return template_messages(prompt, reads, options.media_in_history, separator)
        except MediaError as error:
            if self._loaded.is_multimodal and processor is None:
                raise self._loaded.media_error() from error
            raise

    def _with_media(
        self,
        conversation: TemplateMessages,
        processor: MultimodalProcessor,
        style: PromptStyle,
        cancelled: threading.Event,
    ) -> EncodedPrompt:
        """Encode a conversation whose media the model reads."""
        self._check_count(conversation)
        files = _files(conversation, self._media)
        with self._tokenizer_lock:
            text = style.render(
                conversation.messages, self._loaded.tokenizer, conversation.media_kinds
            )
            control = chat_template(self._loaded.tokenizer).control_tokens
        images: list[LoadedImage] = []
        recordings: list[LoadedAudio] = []
        with self._media_lock:
            for file, where in zip(files, conversation.locations, strict=True):
                if cancelled.is_set():
                    raise RequestCancelledError("the request was cancelled")
                if isinstance(file, ImageContent):
                    images.append(_located(where, partial(load_image, file, self._media)))
                    self._check_pixels(images, where)
                else:
                    load = partial(load_audio, file, self._media, processor.sample_rate)
                    recordings.append(_located(where, load))
                    self._check_seconds(recordings, where)
            return processor.encode(text, images, recordings, control)

    def _check_pixels(self, images: Sequence[LoadedImage], where: str) -> None:
        limit = _MAX_LARGE_IMAGES * self._media.max_image_pixels
        pixels = sum(one.image.width * one.image.height for one in images)
        if pixels > limit:
            raise MediaError(
                f"the images have {pixels:,} pixels together; the maximum is {limit:,}",
                where=where,
                limit="max_image_pixels",
                hint=f"The limit is {_MAX_LARGE_IMAGES} times max_image_pixels of MediaOptions.",
            )

    def _check_count(self, conversation: TemplateMessages) -> None:
        count = sum(isinstance(one, ImageContent) for one in conversation.media)
        if count > self._media.max_images:
            raise MediaError(
                f"the prompt has {count} images; the maximum is {self._media.max_images}",
                limit="max_images",
                hint="The limit is max_images of MediaOptions.",
            )

    def _check_seconds(self, recordings: Sequence[LoadedAudio], where: str) -> None:
        limit = self._media.max_audio_seconds
        seconds = sum(one.duration for one in recordings)
        if seconds > limit:
            raise MediaError(
                f"the recordings take {seconds:.0f} s together; the maximum is {limit:.0f} s",
                where=where,
                limit="max_audio_seconds",
                hint="The limit is max_audio_seconds of MediaOptions.",
            )

    def _boundaries(
        self, conversation: TemplateMessages, encoded: EncodedPrompt, style: PromptStyle
    ) -> tuple[int, ...]:
        """Return the lengths at which other prompts may diverge.

        Prompts are compared as rendered, with one placeholder for each medium. Other prompts may
        also diverge behind the last medium.
        """

        def encode(messages: Sequence[Mapping[str, Any]]) -> list[int]:
            return style.encode(
                messages,
                self._loaded.tokenizer,
                conversation.media_kinds,
                lock=self._tokenizer_lock,
            )

        ids = encoded.token_ids
        if not conversation.media:
            return message_boundaries(conversation.messages, ids, encode)
        rendered = encode(conversation.messages)
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

    def read(medium: ImageContent | AudioContent, where: str) -> ImageContent | AudioContent:
        data, media_type = _located(where, partial(read_source, medium, options))
        return type(medium)(data=data, media_type=media_type)

    media, locations = conversation.media, conversation.locations
    if sum(medium.url is not None for medium in media) < 2:
        return list(map(read, media, locations))
    with ThreadPoolExecutor(_MAX_CONNECTIONS) as threads:
        return list(threads.map(read, media, locations))


def _located(where: str, call: Callable[[], _T]) -> _T:
    """Call a function; its errors get a location in the prompt."""
    try:
        return call()
    except MediaError as error:
        raise error.at(where) from error
