"""The processor of a multimodal model: messages for its chat template, and prompts as tokens.

Rendered text and media are processed together, as mlx-vlm does it, so the tokens are the ones that
mlx-vlm's own ``generate`` reads.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from ..conversation.control_tokens import ControlTokens, is_marked
from ..conversation.prompts import EncodedPrompt
from ..errors import PromptError
from ..models.kinds import MediaKind
from ..runtime.extras import import_extra
from .chat_template import MediaPlaces
from .prompt_inputs import Ids, MediaInputs, array_bytes, single_pass_end, split_by_image, to_numpy

if TYPE_CHECKING:
    # Pillow and the decoders are imported with the first medium.
    from ..media.audio import LoadedAudio
    from ..media.images import LoadedImage

_KINDS: tuple[MediaKind, ...] = ("image", "audio")
_MAX_KNOWN_COUNTS = 1024
_AUDIO_MODULE = re.compile("audio|sound|speech")

_ATTRIBUTES: Mapping[MediaKind, tuple[str, ...]] = {
    "image": (
        "image_token_id",
        "image_token_index",
        "img_context_token_id",
        "media_placeholder_token_id",
        "image_patch_token_id",
        "image_patch_id",
        "img_id",
    ),
    "audio": ("audio_token_id", "audio_token_index", "sound_context_token_id"),
}
"""Attributes of configurations with the id of the token that stands for a part of a medium."""


class MultimodalProcessor:
    """Processes the media of a multimodal model. Safe to use from several threads.

    Args:
        model: mlx-vlm's model.
        processor: The model's processor. It is used under a lock and belongs to this object.
        tokenizer: The model's tokenizer. Its chat template is used by the constructor only.
        model_type: The architecture's name in the configuration.

    Attributes:
        reads: The kinds of media that the model reads.
        sample_rate: Samples per second that the model expects of recordings.
    """

    def __init__(
        self, model: Module, processor: Any, tokenizer: TokenizerWrapper, model_type: str
    ) -> None:
        self._model = model
        self._model_type = model_type
        self._processor = processor
        self._tokenizer = getattr(processor, "tokenizer", processor)
        self._lock = threading.Lock()
        self._counts: dict[tuple[MediaKind, bytes], int] = {}
        self.reads = _kinds(model, processor)
        extractor = getattr(processor, "feature_extractor", None)
        self.sample_rate = int(getattr(extractor, "sampling_rate", 16_000))
        self._ids = {kind: placeholder_ids(model, kind) for kind in _KINDS}
        self._places = {
            kind: MediaPlaces.of(self._tokenizer, tokenizer, model_type, kind, self._ids[kind])
            for kind in _KINDS
            if kind in self.reads
        }

    def encode(
        self,
        text: str,
        images: Sequence[LoadedImage] = (),
        recordings: Sequence[LoadedAudio] = (),
        control: ControlTokens | None = None,
    ) -> EncodedPrompt:
        """Return the tokens of a rendered prompt with its media.

        Args:
            text: The rendered conversation.
            images: The images, in the order of their places in the text.
            recordings: The recordings, likewise.
            control: Rendered the text, if it may have marks.

        Raises:
            PromptError: The text has places for more or fewer media, or the processor refuses them.
        """
        media: dict[MediaKind, Sequence[Any]] = {"image": images, "audio": recordings}
        # Other threads may use the device meanwhile.
        with self._lock, mx.stream(mx.cpu):
            for kind, places in self._places.items():
                places.check(self._tokenizer, text, len(media[kind]))
            with self._unmarking(text, control):
                arrays = self._process(text, media)
            token_ids: Ids = arrays.pop("input_ids").reshape(-1).astype(np.int64)
            if not images and not recordings:
                return EncodedPrompt(token_ids.tolist())
            placed = {kind: self._by_medium(kind, media[kind], token_ids) for kind in _KINDS}
            return self._encoded(token_ids, arrays, placed)

    @contextmanager
    def _unmarking(self, text: str, control: ControlTokens | None) -> Iterator[None]:
        """Let the processor's tokenizer remove the marks of a text."""
        if control is None or not is_marked(text):
            yield
            return
        # Raises unless control tokens can be written as text.
        control.encode(text)
        tokenizer, plain = self._tokenizer, control.unmarking()
        if plain is None or not hasattr(tokenizer, "_tokenizer"):
            raise PromptError(
                "a text of the prompt has a control token of the model",
                hint="This model's tokenizer cannot write it as text. Leave it out.",
            )
        # The processor has this tokenizer for itself, and the lock is held.
        tokenizer._tokenizer, backend = plain, tokenizer._tokenizer
        try:
            yield
        finally:
            tokenizer._tokenizer = backend

    def _process(self, text: str, media: Mapping[MediaKind, Sequence[Any]]) -> dict[str, Any]:
        """Return the arrays of the processor: ``input_ids`` and the inputs of the model."""
        utils = import_extra("vision", "mlx_vlm.utils", purpose="reading images")
        if len(media["audio"]) > 1 and not getattr(
            self._processor, "supports_multiple_audio", False
        ):
            raise PromptError(
                "this model reads one audio recording a prompt", hint="Leave out the others."
            )
        try:
            inputs = utils.prepare_inputs(
                self._processor,
                images=[image.image for image in media["image"]] or None,
                audio=[recording.samples for recording in media["audio"]] or None,
                prompts=text,
                image_token_index=getattr(self._model.config, "image_token_index", None),
                add_special_tokens=utils.should_add_special_tokens(
                    self._model_type, self._processor
                ),
            )
            # NumPy's, since arrays of MLX belong to this thread.
            arrays = {name: to_numpy(value) for name, value in inputs.items()}
            return self._with_one_bos(text, arrays)
        except Exception as error:
            raise PromptError(f"the model's processor refuses the media: {error}") from error

    def _with_one_bos(self, text: str, arrays: dict[str, Any]) -> dict[str, Any]:
        """Drop the first token where chat template and tokenizer both write it.

        mlx-vlm keeps both, unlike transformers and the text models of mlx-lm. Gemma 3 and the
        models of Mistral are such.
        """
        bos, bos_id = self._tokenizer.bos_token, self._tokenizer.bos_token_id
        ids = arrays["input_ids"]
        is_doubled = ids.shape[1] > 1 and ids[0, 0] == ids[0, 1] == bos_id
        if bos_id is None or not is_doubled or not text.startswith(bos) or text.startswith(bos * 2):
            return arrays
        if any("bound" in name or "position" in name for name in arrays):
            # These arrays refer to tokens by number.
            return arrays
        return {
            name: value[:, 1:] if getattr(value, "shape", None) == ids.shape else value
            for name, value in arrays.items()
        }

    def _by_medium(self, kind: MediaKind, media: Sequence[Any], token_ids: Ids) -> list[_Placed]:
        """Return the placeholder tokens of each medium of a kind."""
        positions = find_placeholders(token_ids, self._ids[kind], kind)
        if not len(media):
            return []
        if not len(positions):
            raise PromptError(f"the model's processor writes no tokens for the {kind}")
        digests = [medium.digest for medium in media]
        split = by_medium(positions, len(media), lambda n: self._count_alone(kind, media[n]))
        if split is None:
            return [_Placed(kind, positions, joint_digest(digests))]
        return [_Placed(kind, *placed) for placed in zip(split, digests, strict=True)]

    def _count_alone(self, kind: MediaKind, medium: Any) -> int:
        """Return the number of placeholder tokens of the only medium of a prompt.

        -1 if the chat template writes no such prompt.
        """
        example = self._places[kind].example
        if example is None:
            return -1
        key = (kind, medium.digest)
        if key not in self._counts:
            if len(self._counts) >= _MAX_KNOWN_COUNTS:
                self._counts.clear()
            none: dict[MediaKind, Sequence[Any]] = {"image": (), "audio": ()}
            inputs = self._process(example, {**none, kind: [medium]})
            ids: Ids = inputs["input_ids"].reshape(-1)
            self._counts[key] = len(find_placeholders(ids, self._ids[kind], kind))
        return self._counts[key]

    def _encoded(
        self,
        token_ids: Ids,
        arrays: Mapping[str, Any],
        placed: Mapping[MediaKind, Sequence[_Placed]],
    ) -> EncodedPrompt:
        key = token_ids.copy()
        every = sorted(
            (medium for media in placed.values() for medium in media),
            key=lambda medium: int(medium.positions[0]),
        )
        for medium in every:
            key[medium.positions] = cache_keys(medium.digest, len(medium.positions))
        media_end = max(int(medium.positions[-1]) for medium in every) + 1
        if media_end == len(token_ids):
            raise PromptError("the prompt ends with a medium", hint="Add a text after it.")
        single_pass = single_pass_end(self._model, token_ids, arrays, media_end)
        spans = tuple((int(medium.positions[0]), int(medium.positions[-1]) + 1) for medium in every)
        # Only images are split, and only where each is known alone.
        by_image = spans if not placed["audio"] and not single_pass else ()
        segments = split_by_image(arrays, len(token_ids), by_image)
        counts = {
            kind: sum(len(medium.positions) for medium in media) for kind, media in placed.items()
        }
        return EncodedPrompt(
            # Ids below 0 are a form of placeholders, but no index of a table of tokens.
            token_ids=np.maximum(token_ids, 0).tolist(),
            cache_key=key,
            inputs=MediaInputs(self._model, token_ids, arrays, segments, media_end, single_pass),
            media_spans=spans,
            image_tokens=counts["image"],
            audio_tokens=counts["audio"],
            media_bytes=sum(map(array_bytes, arrays.values())),
        )


class _Placed(NamedTuple):
    """The placeholder tokens of one medium, or of several whose tokens cannot be separated."""

    kind: MediaKind
    positions: Ids
    digest: bytes


def _kinds(model: Module, processor: Any) -> frozenset[MediaKind]:
    """Return the kinds of media that a processor takes, and a model has modules for."""
    kinds: set[MediaKind] = set()
    if getattr(processor, "image_processor", None) is not None:
        kinds.add("image")
    call = getattr(processor, "process", processor)
    takes_audio = {"audio", "audios"} & set(inspect.signature(call).parameters)
    names = ("feature_extractor", "audio_processor")
    extracts = any(getattr(processor, name, None) is not None for name in names)
    has_module = any(_AUDIO_MODULE.search(path) for path, _ in model.named_modules())
    if takes_audio and extracts and has_module:
        kinds.add("audio")
    return frozenset(kinds)


def placeholder_ids(model: Module, kind: MediaKind) -> frozenset[int]:
    """Return the ids of the tokens whose embeddings a model computes from media.

    Args:
        model: mlx-vlm's model.
        kind: The kind of media.
    """
    # Models that also speak have the configuration of the part that reads inside their own.
    sources = (model.config, getattr(model.config, "thinker_config", None))
    values = (getattr(source, name, None) for source in sources for name in _ATTRIBUTES[kind])
    return frozenset(value for value in values if isinstance(value, int))


def find_placeholders(token_ids: Ids, ids: frozenset[int], kind: MediaKind) -> Ids:
    """Return the positions of a kind's placeholder tokens, ascending.

    Some processors write images as negative ids.
    """
    found = np.isin(token_ids, list(ids))
    if kind == "image":
        found |= token_ids < 0
    return np.flatnonzero(found).astype(np.int64)


def by_medium(positions: Ids, count: int, alone: Callable[[int], int]) -> list[Ids] | None:
    """Return the positions of the placeholder tokens of each medium, in order.

    A medium may be several runs of tokens: some processors write an image as rows or tiles.

    Args:
        positions: Positions of all placeholder tokens, ascending.
        count: Number of media.
        alone: Returns the number of placeholder tokens of a medium that is the only one of a
            prompt; negative if it is not known.

    Returns:
        ``None`` if the tokens cannot be assigned.
    """
    if count == 1:
        return [positions]
    runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    if len(runs) == count:
        return list(runs)
    counts = [alone(number) for number in range(count)]
    if min(counts) < 0 or sum(counts) != len(positions):
        return None
    return list(np.split(positions, np.cumsum(counts)[:-1]))


def cache_keys(digest: bytes, count: int) -> Ids:
    """Return the identities of a medium's tokens in prompt caches, negative numbers.

    They depend on the medium's content and its number of tokens. Two media share a number with a
    probability of 2^-63.

    Args:
        digest: Digest of the medium's content.
        count: Number of its tokens.
    """
    stream = hashlib.shake_256(count.to_bytes(8, "little") + digest).digest(8 * count)
    return np.frombuffer(stream, dtype="<i8").astype(np.int64) | np.int64(-(2**63))


def joint_digest(digests: Sequence[bytes]) -> bytes:
    """Return the digest of several media."""
    return hashlib.sha256(b"".join(hashlib.sha256(digest).digest() for digest in digests)).digest()
