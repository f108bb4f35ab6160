"""The input of custom tools: free text, or the texts of a grammar."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import state_machines
from state_machines import RegexStateMachine as RegexStateMachine
from state_machines import StateMachine
from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError, GrammarError, PatternError, has_surrogate
from state_machines.limits import LIMITS
from state_machines.tool_calls import any_text

from ..checks import short_repr
from ..errors import InvalidToolError
from ..text_formats import GBNF, Lark, Regex, TextFormat

InputSyntax: TypeAlias = Literal["text", "lark", "regex", "gbnf", "ecma-262", "machine"]
"""``"text"``: any text. ``"machine"``: a state machine. The others: a grammar's notation.
``"regex"`` has the syntax of Rust."""

_READERS: Mapping[str, Callable[[str], StateMachine]] = {
    # Names of the package import their modules when they are used.
    "lark": lambda text: state_machines.GrammarStateMachine.from_lark(text),
    "gbnf": lambda text: state_machines.GrammarStateMachine.from_gbnf(text),
    "regex": lambda text: RegexStateMachine(text, syntax="rust"),
    "ecma-262": RegexStateMachine,
}
_OPENAI_SYNTAXES = ("lark", "gbnf", "regex")
_NAMES = {
    "lark": "Lark grammar",
    "gbnf": "GBNF grammar",
    "regex": "regular expression",
    "ecma-262": "regular expression",
}


@dataclass(frozen=True)
class InputFormat:
    """The texts that the input of a custom tool may be. Compiled on first use.

    Attributes:
        syntax: The kind of the format.
        definition: The text of the grammar, the state machine, or ``""`` for free text.
    """

    syntax: InputSyntax = "text"
    definition: str | StateMachine = ""

    def __post_init__(self) -> None:
        known = get_args(InputSyntax)
        if self.syntax not in known:
            raise InvalidToolError(
                f"there is no syntax {short_repr(self.syntax)} of grammars",
                hint=f"Known are {', '.join(map(repr, known))}.",
            )
        kind = StateMachine if self.syntax == "machine" else str
        if not isinstance(self.definition, kind):
            raise InvalidToolError(
                f"the definition of a grammar is a {kind.__name__}, not "
                f"{short_repr(self.definition)}"
            )
        if isinstance(self.definition, str) and has_surrogate(self.definition):
            raise InvalidToolError("the definition of a grammar has a lone surrogate")

    @classmethod
    def of(
        cls,
        grammar: str | TextFormat[str] | StateMachine | None,
        syntax: InputSyntax | None = None,
    ) -> InputFormat:
        """Return the format that a value means.

        Args:
            grammar: The value. A string is a grammar in the given syntax, by default Lark.
            syntax: The syntax of a string; no other value needs it.
        """
        if isinstance(grammar, str) and syntax is not None:
            return cls(syntax, grammar)
        match grammar:
            case None:
                return cls()
            case Lark(grammar=text, start="start"):
                return cls("lark", text)
            case GBNF(grammar=text, start="root"):
                return cls("gbnf", text)
            case Regex(pattern=pattern, syntax=dialect):
                return cls("regex" if dialect == "rust" else dialect, pattern)
            case TextFormat():
                return cls("machine", grammar.machine())
            case StateMachine():
                return cls("machine", grammar)
        return cls("lark", grammar)

    @cached_property
    def machine(self) -> StateMachine:
        """The machine of the texts.

        Raises:
            InvalidToolError: The grammar is refused; the cause has the line and the column. Tokens
                by name or number, limits on the tokens of a rule, and temperatures of rules are
                refused.
        """
        machine = self._compiled()
        # An input is a text, which formats escape and delimit.
        unsupported = {
            "has tokens by name or by number": (
                machine.token_sets,
                "Write the texts of tokens in quotes.",
            ),
            "limits the tokens of a part": (
                machine.limited_rules,
                "Limit characters, as in /.{0,100}/, or use the option max_tokens.",
            ),
            "has temperatures of rules": (
                machine.temperatures,
                'Give the temperature of the part "tool_call".',
            ),
        }
        for what, (is_used, hint) in unsupported.items():
            if is_used:
                raise InvalidToolError(f"the grammar of the input {what}", hint=hint)
        return machine

    def _compiled(self) -> StateMachine:
        if not isinstance(self.definition, str):
            return self.definition
        if self.syntax == "text":
            return any_text()
        try:
            return _READERS[self.syntax](self.definition)
        except (GrammarError, PatternError) as error:
            raise InvalidToolError(
                f"the grammar of the input: {error.summary}", hint=error.hint
            ) from error

    @property
    def key(self) -> Hashable:
        """Equal for formats with equal machines."""
        text = self.definition
        return self.syntax, text if isinstance(text, str) else id(text)

    @property
    def description(self) -> str:
        """The format in words, for the model."""
        if self._grammar is None:
            return "Free text." if self.syntax == "text" else ""
        syntax, text = self._grammar
        return f"Text that matches this {_NAMES[syntax]}:\n{text}"

    def check(self, text: str) -> None:
        """Raise ``ValueError`` unless a text is of the format."""
        try:
            with step_budget(LIMITS.compile_steps):
                if self.machine.matches(text):
                    return
        except GrammarBudgetError as error:
            # A tool may rely on its grammar, so an input that is not checked is refused.
            raise ValueError("matching the input with its grammar takes too many steps") from error
        raise ValueError("the input does not match its grammar")

    def to_openai(self) -> dict[str, Any]:
        """Return the member ``format`` of OpenAI's chat API."""
        if self.syntax == "text":
            return {"type": "text"}
        if self._grammar is None:
            raise InvalidToolError("a state machine cannot be written as JSON")
        syntax, text = self._grammar
        if syntax not in _OPENAI_SYNTAXES:
            raise InvalidToolError(
                "OpenAI's format has regular expressions in the syntax of Rust",
                hint='Give Regex(..., syntax="rust").',
            )
        return {"type": "grammar", "grammar": {"syntax": syntax, "definition": text}}

    @property
    def _grammar(self) -> tuple[str, str] | None:
        """The notation and the text of the grammar, if it has one."""
        if isinstance(self.definition, state_machines.GrammarStateMachine):
            return self.definition.notation, self.definition.text
        if self.syntax in _READERS:
            return self.syntax, str(self.definition)
        return None


def input_format_from_dict(definition: Any) -> InputFormat:
    """Return the format of OpenAI's member ``format``, in the form of either API.

    Raises:
        InvalidToolError: The format is malformed.
    """
    match definition:
        case None:
            return InputFormat()
        case {"type": str("text")} if len(definition) == 1:
            return InputFormat()
        case {"type": str("grammar"), "grammar": Mapping() as grammar, **rest} if not rest:
            return input_format_from_dict({"type": "grammar", **grammar})
        case {"type": str("grammar"), "syntax": str(syntax), "definition": str(text), **rest} if (
            not rest and syntax in _OPENAI_SYNTAXES
        ):
            return InputFormat(syntax, text)  # type: ignore[arg-type]  # an OpenAI syntax
    raise InvalidToolError(
        f"the format of a custom tool's input is malformed: {short_repr(definition)}",
        hint='It is {"type": "text"} or {"type": "grammar", "grammar": {"syntax": …, '
        f'"definition": …}}}}. A syntax is one of {", ".join(map(repr, _OPENAI_SYNTAXES))}.',
    )
