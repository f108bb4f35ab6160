"""Applications of an engine in their own packages: extraction, transcription, OpenAI's clients.

Each method imports its package when it is called, so programs that only generate do not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from ..runtime.extras import import_extra
from .core import EngineCore

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from typing_extensions import TypeForm

    from ..extraction.options import ExtractionArguments
    from ..extraction.outcomes import Engine
    from ..extraction.results import ExtractionResults, ExtractionStream
    from ..transcription import TranscriptionArguments
    from ..transcription.results import Transcript, TranscriptStream
    from ..transcription.transcriber import Audio
    from .arguments import Format, T

    Records: TypeAlias = Iterable[Any] | os.PathLike[str]

# Imported by name: the engine does not depend on its front ends.
_CLIENTS = "proxy_engine.integrations.openai"
_APPLICATION = "proxy_engine.integrations.application"


class Applications:
    """``extract``, ``transcribe``, ``openai`` and their variants."""

    _core: EngineCore

    def __init__(self) -> None:
        self._application: Any = None
        self._application_lock = threading.Lock()

    @overload
    def extract(
        self,
        records: Records,
        response_format: TypeForm[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionResults[T]: ...
    @overload
    def extract(
        self,
        records: Records,
        response_format: Format[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionResults[T]: ...
    def extract(
        self,
        records: Records,
        response_format: Any = None,
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionResults[Any]:
        """Extract an answer from each record, up to ``batch_size`` together.

        An error of one record is stored with it and does not affect the others. An interrupt stops
        all requests; the output file keeps the rows that it has.

        Args:
            records: Strings, mappings, dataclasses, pydantic objects or named tuples in a list or
                another iterable; a data frame of pandas, polars or another library that narwhals
                reads, a table of pyarrow, or a dataset of Hugging Face, with a record in each row;
                a ``pathlib.Path`` or a URL of a file of JSON Lines, CSV or Parquet, or of texts and
                images.
            response_format: As in :meth:`generate`, except free text and compositions.
            text: The field or column with the text, or a function of the record. An integer is the
                name of a column, as in a frame that was read without a header.
            image: The field or column with an image, or a function of the record: a path, a URL,
                bytes, an image of Pillow, or a list of these. A record with an image needs no text.
            instruction: The text that precedes a record's text in its prompt, or a function of the
                record. Default: extract the properties of the response format. If it is empty, the
                prompt is the text alone, as :meth:`generate` takes it.
            prefix: Text before the names of the result's columns, where the records have fields of
                the same names.
            columns: Columns of frames and output files about the answers: ``"cut_short"``, the
                default (``cut_short``, the limit that cut the answer short, and ``cut_short_at``,
                the JSON Pointer of the value; in JSON Lines only in rows of such answers),
                ``"tokens"`` (``prompt_tokens`` and ``completion_tokens``) and ``"confidence"``
                (``<property>_confidence`` for each property; the options ``exact_choices`` and
                ``confidence`` are then on by default). ``confidence=True`` adds the last one.
            retry_cut_short: Whether a record whose answer ``max_tokens`` cuts short is tried once
                more with twice as many tokens. Without ``max_tokens``, here and in the options of
                the engine, an answer ends with the context at the latest.
            quotes: Whether the model copies the words of the text that state a property after it
                has written the property. The quotes are in ``record.quotes``, at the pointers of
                the properties, and in columns ``<property>_quote``; the values are without them.
                The answer must be an object with listed properties. A quote may be empty.
            chunk_tokens: Divide longer texts at sentences into pieces of about this many tokens,
                and merge the items of their answers by their quotes. The answer must be a list of
                items with quotes from ``"input"``, or an object whose only property is one.
            chunk_overlap: Number of tokens by which pieces overlap at least. Default: an eighth of
                ``chunk_tokens``.
            output: A file or URL to which rows are written as they finish. Its suffix, ``.jsonl``,
                ``.csv`` or ``.parquet``, is its format. The rows of a Parquet file are beside it,
                in ``.partial.jsonl``, until the last one.
            resume: Continue the output file of an interrupted run over the same records. Its rows
                are validated, and returned without ``usage``.
            overwrite: Replace an output file that exists.
            progress: Whether to show a progress bar, or a function that is called with an
                ``ExtractionProgress`` after each record. Default: a bar if standard error is a
                terminal, and in notebooks.
            options: The options of ``GenerationOptions``.

        Returns:
            The outcomes in the order of the records.

        Raises:
            InvalidOptionError: An argument is invalid, a column is missing, or a column of the
                result has the name of a field.
            InvalidResponseFormatError: The response format is none of the accepted kinds.
            OutputFileRefusedError: The output file exists and ``resume`` is false, or it was not
                written by this extraction.
            OutputFileError: The output file cannot be written.
            ProxyError: As :meth:`generate` raises it for every record, before the first one.
        """
        from ..extraction.run import extract

        return extract(cast("Engine", self), records, response_format, **arguments)

    @overload
    def iter_extract(
        self,
        records: Records,
        response_format: TypeForm[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionStream[T]: ...
    @overload
    def iter_extract(
        self,
        records: Records,
        response_format: Format[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionStream[T]: ...
    def iter_extract(
        self,
        records: Records,
        response_format: Any = None,
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionStream[Any]:
        """:meth:`extract` as a stream of records, for inputs that are larger than the memory.

        Some ``4 * batch_size`` records are read ahead. The output file is opened when the first
        record is requested. Arguments and exceptions are those of :meth:`extract`.
        """
        from ..extraction.run import iter_extract

        return iter_extract(cast("Engine", self), records, response_format, **arguments)

    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    def transcribe(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
    ) -> Transcript[Any]:
        """Transcribe a recording with a speech model such as Whisper.

        A long recording is transcribed in windows of 30 seconds; other requests take turns.

        Args:
            audio: A path, the bytes of a file, ``AudioContent``, an array with its sample rate in
                Hz, or an array at 16 kHz. Arrays have shape (samples,) or (samples, channels).
            response_format: As in :meth:`~proxy_engine.InferenceEngine.generate`: the transcript
                matches it, and ``transcript.parsed`` is its value. For recordings of up to 30
                seconds. Default: free text with timestamps.
            on_progress: Called with the seconds that are transcribed and the recording's seconds.
            options: The options of ``TranscriptionOptions``.

        Raises:
            PromptError: The model transcribes no speech.
            MediaError: The recording cannot be read, or exceeds a limit.
            InvalidOptionError: An option is unknown or invalid, or the model does not know the
                language.
            EngineClosedError: The engine is closed.
            ProxyError: The response format is invalid, as in ``generate``.
        """
        from ..transcription.transcriber import transcribe

        return transcribe(self._core, audio, response_format, **arguments)

    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> TranscriptStream[T]: ...
    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> TranscriptStream[T]: ...
    def transcribe_stream(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
    ) -> TranscriptStream[Any]:
        """:meth:`transcribe` as a stream of segments, which are computed when they are read.

        The recording and the arguments are checked by this call.
        """
        from ..transcription.transcriber import transcribe_stream

        return transcribe_stream(self._core, audio, response_format, **arguments)

    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    async def atranscribe(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
    ) -> Transcript[Any]:
        """:meth:`transcribe` for event loops. Cancelling the task stops the transcription.

        ``on_progress`` is called on another thread.
        """
        from ..transcription.transcriber import atranscribe

        return await atranscribe(self._core, audio, response_format, **arguments)

    def openai(self, **options: Any) -> OpenAI:
        """Return the client of the package ``openai`` for this engine, without a server.

        Streams receive each token as it is generated; closing one cancels its request. Closing the
        client does not close the engine.

        Args:
            options: Options of the client.

        Raises:
            MissingExtraError: The extra ``openai`` is not installed.
        """
        clients = import_extra("openai", _CLIENTS, purpose="engine.openai()")
        client: OpenAI = clients.openai_client(self, **options)
        return client

    def async_openai(self, **options: Any) -> AsyncOpenAI:
        """:meth:`openai` for event loops. Cancelling a task cancels its request."""
        clients = import_extra("openai", _CLIENTS, purpose="engine.async_openai()")
        client: AsyncOpenAI = clients.async_openai_client(self, **options)
        return client

    @property
    def application(self) -> Any:
        """The server's application on this engine, which clients in the same process share.

        Raises:
            MissingExtraError: The extra ``openai`` is not installed.
        """
        module = import_extra("openai", _APPLICATION, purpose="OpenAI's interface")
        if self._application is None:
            # The application stores responses, so all threads share it.
            with self._application_lock:
                if self._application is None:
                    self._application = module.Application(self)
        return self._application
