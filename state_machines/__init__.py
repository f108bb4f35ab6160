"""Grammars, vocabularies and token masks. Needs NumPy, never mlx.

>>> from state_machines import RegexStateMachine
>>> RegexStateMachine(r"(yes|no)").matches("yes")
True
"""

from state_machines.context_free import GrammarStateMachine
from state_machines.errors import (
    CompositionError,
    GrammarBudgetError,
    GrammarError,
    GrammarSyntaxError,
    InvalidArgumentError,
    InvalidPatternError,
    InvalidSchemaError,
    InvalidStructuralTagError,
    MarkerError,
    MaxTokensTooSmallError,
    MissingSourceError,
    PatternError,
    ProxyError,
    SchemaError,
    StructuralTagError,
    TokenRejectedError,
    ToolNameError,
    ToolSchemaWarning,
    UnknownTokenError,
    UnsatisfiableGrammarError,
    UnsatisfiableSchemaError,
    UnsupportedGrammarError,
    UnsupportedPatternError,
    UnsupportedSchemaError,
    UnsupportedStructuralTagError,
    UnwritableTextError,
    VocabularyError,
)
from state_machines.explanation import MaskExplanation, TokenExplanation
from state_machines.json_schema import JsonSchemaStateMachine
from state_machines.machine import ChoiceStateMachine, RegexStateMachine, StateMachine
from state_machines.masks.mask_store import MaskCost
from state_machines.matcher import Matcher
from state_machines.quotes import QuoteFrom, SubstringStateMachine
from state_machines.vocabulary import Vocabulary
from state_machines.vocabulary_cache import VocabularyCache

__all__ = [
    "ChoiceStateMachine",
    "CompositionError",
    "GrammarBudgetError",
    "GrammarError",
    "GrammarStateMachine",
    "GrammarSyntaxError",
    "InvalidArgumentError",
    "InvalidPatternError",
    "InvalidSchemaError",
    "InvalidStructuralTagError",
    "JsonSchemaStateMachine",
    "MarkerError",
    "MaskCost",
    "MaskExplanation",
    "Matcher",
    "MaxTokensTooSmallError",
    "MissingSourceError",
    "PatternError",
    "ProxyError",
    "QuoteFrom",
    "RegexStateMachine",
    "SchemaError",
    "StateMachine",
    "StructuralTagError",
    "SubstringStateMachine",
    "TokenExplanation",
    "TokenRejectedError",
    "ToolNameError",
    "ToolSchemaWarning",
    "UnknownTokenError",
    "UnsatisfiableGrammarError",
    "UnsatisfiableSchemaError",
    "UnsupportedGrammarError",
    "UnsupportedPatternError",
    "UnsupportedSchemaError",
    "UnsupportedStructuralTagError",
    "UnwritableTextError",
    "Vocabulary",
    "VocabularyCache",
    "VocabularyError",
]
