"""One schema on its way to a grammar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from referencing import Registry

from state_machines.budgets import step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.json_schema.document import SchemaDocument
from state_machines.json_schema.keywords import KeywordTable
from state_machines.json_schema.normal_form import Normaliser
from state_machines.json_schema.reachable import check_reachable, located_at
from state_machines.json_schema.syntax import Syntax
from state_machines.json_schema.terms import Term
from state_machines.json_schema.translate import Translator
from state_machines.limits import LIMITS

__all__ = ["Compilation", "PropertyOrder"]

PropertyOrder = Literal["schema", "any"]


class Compilation:
    """A schema as a ``term``, and what turns terms into grammars.

    ``root`` is the place of the whole schema. The options are those of
    :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
    """

    def __init__(
        self,
        schema: Any,
        *,
        assert_formats: bool = True,
        strict: bool = False,
        registry: Registry[Any] | None = None,
    ) -> None:
        self.normaliser = Normaliser(KeywordTable(strict=strict, assert_formats=assert_formats))
        self.table = self.normaliser.table
        try:
            with step_budget(LIMITS.compile_steps):
                self.root = SchemaDocument(schema, registry).root
                self.term = self.table.located(self.root)
        except GrammarBudgetError as error:
            raise UnsupportedSchemaError(error.what, pointer="", hint=error.hint) from error

    def translator(self, syntax: Syntax, property_order: PropertyOrder = "schema") -> Translator:
        """Return what writes terms in a syntax; an unknown order is an error."""
        if property_order not in get_args(PropertyOrder):
            raise InvalidArgumentError(
                f"property_order is 'schema' or 'any', not {property_order!r}",
                argument="property_order",
            )
        return Translator(self.normaliser, syntax, any_order=property_order == "any")

    @contextmanager
    def of(self, term: Term) -> Iterator[None]:
        """Bound what is done, and say of errors that know no place that they are a term's."""
        try:
            with step_budget(LIMITS.compile_steps), located_at(term):
                yield
        except RecursionError as error:
            raise UnsupportedSchemaError("the schema is nested too deeply", pointer="") from error

    def check(self, term: Term, nothing: str) -> None:
        """Raise :class:`~state_machines.errors.SchemaError` for what is wrong with a term.

        ``nothing`` is what is wrong if it has no value.
        """
        check_reachable(term, self.normaliser)
        if self.normaliser.is_empty(term):
            raise UnsatisfiableSchemaError(nothing, pointer="")
