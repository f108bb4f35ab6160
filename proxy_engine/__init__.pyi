"""The public names. ``lazy_loader`` reads their modules from this stub."""

from .answers import QuoteFrom as QuoteFrom
from .answers.response_format import Fenced as Fenced
from .conversation.content import (
    AudioContent as AudioContent,
)
from .conversation.content import (
    Content as Content,
)
from .conversation.content import (
    FileContent as FileContent,
)
from .conversation.content import (
    ImageContent as ImageContent,
)
from .conversation.content import (
    JsonContent as JsonContent,
)
from .conversation.content import (
    TextContent as TextContent,
)
from .conversation.content import (
    ToolCall as ToolCall,
)
from .conversation.interaction import (
    Interaction as Interaction,
)
from .conversation.interaction import (
    Role as Role,
)
from .conversation.messages import RawPrompt as RawPrompt
from .engine.inference_engine import InferenceEngine as InferenceEngine
from .errors import (
    AdapterError as AdapterError,
)
from .errors import (
    BatchError as BatchError,
)
from .errors import (
    CompileLimitError as CompileLimitError,
)
from .errors import (
    CompositionError as CompositionError,
)
from .errors import (
    DistributedError as DistributedError,
)
from .errors import (
    DraftModelError as DraftModelError,
)
from .errors import (
    EarlierRunError as EarlierRunError,
)
from .errors import (
    EngineClosedError as EngineClosedError,
)
from .errors import (
    EngineError as EngineError,
)
from .errors import (
    EngineForkedError as EngineForkedError,
)
from .errors import (
    EventLoopBlockedError as EventLoopBlockedError,
)
from .errors import (
    GrammarBudgetError as GrammarBudgetError,
)
from .errors import (
    InvalidOptionError as InvalidOptionError,
)
from .errors import (
    InvalidResponseFormatError as InvalidResponseFormatError,
)
from .errors import (
    InvalidToolError as InvalidToolError,
)
from .errors import (
    MaxTokensTooSmallError as MaxTokensTooSmallError,
)
from .errors import (
    MediaError as MediaError,
)
from .errors import (
    MissingExtraError as MissingExtraError,
)
from .errors import (
    ModelError as ModelError,
)
from .errors import (
    ModelFetchError as ModelFetchError,
)
from .errors import (
    ModelFormatError as ModelFormatError,
)
from .errors import (
    ModelNotFoundError as ModelNotFoundError,
)
from .errors import (
    OutputFileError as OutputFileError,
)
from .errors import (
    OutputFileRefusedError as OutputFileRefusedError,
)
from .errors import (
    OutputValidationError as OutputValidationError,
)
from .errors import (
    PromptCacheFileError as PromptCacheFileError,
)
from .errors import (
    PromptCacheMismatchError as PromptCacheMismatchError,
)
from .errors import (
    PromptError as PromptError,
)
from .errors import (
    PromptTooLongError as PromptTooLongError,
)
from .errors import (
    ProxyError as ProxyError,
)
from .errors import (
    RecordError as RecordError,
)
from .errors import (
    RequestCancelledError as RequestCancelledError,
)
from .errors import (
    SchemaError as SchemaError,
)
from .errors import (
    ToolArgumentsError as ToolArgumentsError,
)
from .errors import (
    ToolFailedError as ToolFailedError,
)
from .errors import (
    ToolSchemaError as ToolSchemaError,
)
from .errors import (
    UnsupportedArchitectureError as UnsupportedArchitectureError,
)
from .errors import (
    VocabularyError as VocabularyError,
)
from .extraction.progress import ExtractionProgress as ExtractionProgress
from .extraction.results import ExtractedRecord as ExtractedRecord
from .extraction.results import ExtractionResults as ExtractionResults
from .extraction.results import ExtractionStream as ExtractionStream
from .generation.generate_step import generate_step as generate_step
from .media import MediaOptions as MediaOptions
from .options.generation import (
    FreeformFirstOptions as FreeformFirstOptions,
)
from .options.generation import (
    GenerationOptions as GenerationOptions,
)
from .options.generation import (
    PartOptions as PartOptions,
)
from .options.generation import (
    ReasoningOptions as ReasoningOptions,
)
from .options.generation import (
    SpeculationOptions as SpeculationOptions,
)
from .prompt_cache import CacheOptions as CacheOptions
from .results.events import (
    AnswerRejected as AnswerRejected,
)
from .results.events import (
    Event as Event,
)
from .results.events import (
    Finished as Finished,
)
from .results.events import (
    PartialValue as PartialValue,
)
from .results.events import (
    PromptProgress as PromptProgress,
)
from .results.events import (
    ReasoningDelta as ReasoningDelta,
)
from .results.events import (
    StreamEvent as StreamEvent,
)
from .results.events import (
    TextDelta as TextDelta,
)
from .results.events import (
    TokenGenerated as TokenGenerated,
)
from .results.events import (
    ToolCallDelta as ToolCallDelta,
)
from .results.events import (
    ToolCallFinished as ToolCallFinished,
)
from .results.events import (
    ToolCallStarted as ToolCallStarted,
)
from .results.events import (
    ToolInputDelta as ToolInputDelta,
)
from .results.generation import GenerationResult as GenerationResult
from .results.parts import AnswerPart as AnswerPart
from .results.parts import CutShort as CutShort
from .results.parts import DraftUsage as DraftUsage
from .results.parts import Logprob as Logprob
from .results.parts import LogprobVectors as LogprobVectors
from .results.parts import Quotation as Quotation
from .results.parts import RejectedAnswer as RejectedAnswer
from .results.parts import ScoredChoice as ScoredChoice
from .results.parts import ScoredOption as ScoredOption
from .results.parts import Span as Span
from .results.parts import TokenLogprobs as TokenLogprobs
from .results.parts import Usage as Usage
from .results.streams import (
    AsyncBatchStream as AsyncBatchStream,
)
from .results.streams import (
    AsyncEventStream as AsyncEventStream,
)
from .results.streams import (
    BatchItem as BatchItem,
)
from .results.streams import (
    BatchRequest as BatchRequest,
)
from .results.streams import (
    BatchStream as BatchStream,
)
from .results.streams import (
    EventStream as EventStream,
)
from .text_formats import (
    GBNF as GBNF,
)
from .text_formats import (
    Choice as Choice,
)
from .text_formats import (
    Lark as Lark,
)
from .text_formats import (
    Regex as Regex,
)
from .text_formats import (
    TextFormat as TextFormat,
)
from .tools import (
    Tool as Tool,
)
from .tools import (
    ToolChoice as ToolChoice,
)
from .tools.input_format import RegexStateMachine as RegexStateMachine
from .tools.tool_loop import ToolRun as ToolRun
from .transcription import (
    TranscriptionOptions as TranscriptionOptions,
)
from .transcription.results import (
    Transcript as Transcript,
)
from .transcription.results import (
    TranscriptSegment as TranscriptSegment,
)
from .transcription.results import (
    TranscriptWord as TranscriptWord,
)
from .type_reader import Gap as Gap
from .type_reader import gaps as gaps
