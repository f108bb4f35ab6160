"""From a schema to grammar nodes.

A :class:`Compilation` reads one schema and checks it. A :class:`Translator` turns the head normal
forms of its terms into grammar nodes; arrays and objects are unfolded lazily.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal, get_args

from state_machines.budgets import step_budget
from state_machines.caches import LruCache, WeakValueLruCache
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
    check_choice,
)
from state_machines.grammar.decoding import ascii_text
from state_machines.grammar.encoding import NUMBER, encoded
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, SharedDerivatives, intern_node
from state_machines.grammar.nodes import union
from state_machines.grammar.shortest import shortest_word
from state_machines.json_schema.arrays.array_grammar import ArrayPlan
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.arrays.unique_items import (
    Cardinality,
    check_distinct,
    count_scalars,
)
from state_machines.json_schema.checks import (
    check_reachable,
    has_idle_nullable,
    smallest_empty_schema,
)
from state_machines.json_schema.dialects import SchemaOptions
from state_machines.json_schema.document import SchemaDocument
from state_machines.json_schema.keywords import (
    KEYWORD_NAMES_BY_VOCABULARY,
    SchemaReader,
    located_errors,
)
from state_machines.json_schema.misplaced import misplaced_hint
from state_machines.json_schema.numbers.number_sets import NumberSet
from state_machines.json_schema.numbers.number_text import number_language
from state_machines.json_schema.numbers.same_double import every_spelling
from state_machines.json_schema.objects.object_grammar import ObjectPlan
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_sets import (
    ValueSet,
    constant,
    constants,
    is_json_value,
    without_scalars,
)
from state_machines.json_schema.value_syntax import JSON_SYNTAXES, MemberSyntax, ValueSyntax
from state_machines.limits import LIMITS
from state_machines.quotes import QuoteSources

_LISTED_VALUES = 64
"""Items of an array with ``uniqueItems`` up to which different values are listed."""

_LISTING_STEPS = 10_000
"""Steps to list the different values of one term."""

_CONSTANT_NODES = 16
"""Constants of one schema whose nodes are held although no state needs them now."""

PropertyOrder = Literal["schema", "any"]


class Compilation:
    """One schema as a term, with the evaluator of its terms.

    Attributes:
        schema: The schema, copied.
        evaluator: Builds and evaluates the terms of the schema.
        root: The location of the whole schema.
        term: The term of the whole schema.

    Raises:
        SchemaError: The schema is not JSON, or its root is malformed.
    """

    def __init__(self, schema: Any, options: SchemaOptions | None = None) -> None:
        options = options or SchemaOptions()
        self.evaluator = SchemaReader(options, QuoteSources(options.sources))
        self.evaluator.json_texts = _json_texts
        budget = step_budget(LIMITS.compile_steps)
        with located_errors(None), budget:
            document = SchemaDocument(schema, options.registry, KEYWORD_NAMES_BY_VOCABULARY)
            self.schema = document.contents
            self.root = document.root
            self.evaluator.has_plain_integers = self.root.dialect.plain_integers
            self.term = self.evaluator.schema_ref(self.root)
            if options.excluding:
                if not all(map(is_json_value, options.excluding)):
                    raise InvalidArgumentError(
                        "excluding has a value that is not JSON",
                        argument="excluding",
                        hint="Numbers are finite, and names of properties are strings.",
                    )
                values = self.evaluator.evaluated(constants(options.excluding, self.evaluator))
                self.term = self.evaluator.all_of((self.term, self.evaluator.negation(values)))
        self._steps_taken = budget.steps_taken

    def translator(
        self, syntax: ValueSyntax, property_order: PropertyOrder = "schema"
    ) -> Translator:
        """Return a translator of this schema's terms into ``syntax``.

        Raises:
            InvalidArgumentError: ``property_order`` is unknown.
        """
        check_choice("property_order", property_order, get_args(PropertyOrder))
        return Translator(self.evaluator, syntax, any_order=property_order == "any")

    @contextmanager
    def bounded(self, term: Term) -> Iterator[None]:
        """Apply the step budget of a compilation, and locate errors at the schemas of ``term``.

        The budget is what the reading of the schema has left.
        """
        budget = step_budget(LIMITS.compile_steps, taken=self._steps_taken)
        # The outer block locates a RecursionError that the inner one raises in turn.
        with located_errors(None), budget, located_errors(term):
            yield

    def check(self, term: Term, unsatisfiable: str) -> None:
        """Check everything that is reachable from ``term``.

        Args:
            term: The term to check.
            unsatisfiable: The message of the error that is raised if the term is empty.

        Raises:
            SchemaError: Something reachable is malformed or unsupported, or the term is empty.
        """
        translator = Translator(self.evaluator, JSON_SYNTAXES["compact"], any_order=False)
        check_reachable(term, self.evaluator, translator.check_distinct)
        if not self.evaluator.is_empty(term):
            return
        pointer = hint = ""
        # The term may be narrower than the schema.
        if self.evaluator.is_empty(self.term):
            location = smallest_empty_schema(self.root, self.evaluator)
            pointer, hint = location.pointer, misplaced_hint(location.schema)
        if has_idle_nullable(self.root):
            hint = (
                "OpenAPI 3.0 defines nullable beside type alone; elsewhere write "
                '"anyOf": [..., {"type": "null"}]'
            )
        if pointer and not hint:
            hint = "Every value of the whole schema needs a value of this part"
        raise UnsatisfiableSchemaError(unsatisfiable, pointer=pointer, hint=hint)


def _json_texts(evaluator: SchemaReader, term: Term) -> Node:
    """Return the JSON texts of a term's values, for strings that contain JSON."""
    translator = Translator(evaluator, JSON_SYNTAXES["spaced"], any_order=False)
    return ascii_text(translator.value(term))


class Translator:
    """Makes the grammar nodes of one compilation's terms.

    The evaluator, the syntax and the order are attributes, too.

    Args:
        evaluator: Evaluates the terms.
        syntax: How values are written.
        any_order: Whether the properties of an object may come in any order.
        any_spelling: Whether a single number may have any spelling. ``True`` where the grammar only
            has to distinguish values.
    """

    def __init__(
        self,
        evaluator: SchemaReader,
        syntax: ValueSyntax,
        *,
        any_order: bool,
        any_spelling: bool = False,
    ) -> None:
        self.evaluator = evaluator
        self.syntax = syntax
        self._is_indented = syntax.layout.is_indented
        self.any_order = any_order
        self._any_spelling = any_spelling
        self._nodes: dict[tuple[Term, int], Node] = {}
        self._constants: WeakValueLruCache[tuple[str, int], Node] = WeakValueLruCache(
            _CONSTANT_NODES
        )
        self.shared_derivatives: SharedDerivatives = LruCache(LIMITS.machine_shared_derivatives)
        self._checked: dict[ArrayShape, UnsupportedSchemaError | None] = {}
        self._checking: set[ArrayShape] = set()

    def in_syntax(self, syntax: ValueSyntax) -> Translator:
        """Return a translator of the same terms into another syntax."""
        order, spelling = self.any_order, self._any_spelling
        return Translator(self.evaluator, syntax, any_order=order, any_spelling=spelling)

    def value(self, term: Term, depth: int = 0) -> Node:
        """Return the node of a term's values at nesting level ``depth``."""
        key = (term, depth if self._is_indented else 0)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._value(self.evaluator.values(term), key[1])
        return node

    def _value(self, values: ValueSet, depth: int) -> Node:
        return union((self._scalars(values), self._containers(values, depth)))

    def _containers(self, values: ValueSet, depth: int) -> Node:
        shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
        return union(
            self._container(shape, depth)
            for shape in shapes
            if self.evaluator.shape_is_inhabited(shape)
        )

    def forget(self) -> list[Node]:
        """Give up the stored nodes, and return them. They are made again when they are needed."""
        nodes, self._nodes = self._nodes, {}
        return [*nodes.values(), *self.shared_derivatives.clear()]

    def _scalars(self, values: ValueSet) -> Node:
        syntax = self.syntax
        alternatives = []
        if values.null:
            alternatives.append(syntax.null)
        if values.booleans:
            alternatives.append(syntax.booleans(values.booleans))
        if not values.numbers.is_empty:
            alternatives.append(encoded(self._numbers(values.numbers), NUMBER))
        found = syntax.scalar(union(alternatives))
        return found if values.strings.is_empty else union((found, syntax.string(values.strings)))

    def _numbers(self, numbers: NumberSet) -> Node:
        if self._any_spelling and not numbers.intervals:
            return every_spelling(numbers.points)
        is_plain = self.syntax.plain_integers
        return number_language(
            numbers,
            plain_integers=is_plain or self.evaluator.has_plain_integers,
            plain_constants=is_plain,
        )

    def strings(self, term: Term) -> Node:
        """Return the strings among a term's values, as a language of code points."""
        return self.evaluator.values(term).strings

    def others_without(self, term: Term, texts: Iterable[str], depth: int) -> Node:
        """Return the node of a term's values, except strings and some values given as JSON texts.

        Scalars are excluded as values, arrays and objects as texts.
        """
        values = replace(self.evaluator.values(term), strings=EMPTY)
        ordered = sorted(texts)
        excluded = [self._constant(t, depth) for t in ordered if t.startswith(("[", "{"))]
        scalars = without_scalars(values, [_parsed(t) for t in ordered if t[0] not in "[{"])
        return union((self._scalars(scalars), exclusion(self._containers(values, depth), excluded)))

    def _constant(self, text: str, depth: int) -> Node:
        """Return the node of one JSON value, in any spelling and property order."""

        def make() -> Node:
            # A new evaluator, because the number of values that may be written is unbounded.
            evaluator = self.evaluator.empty_copy()
            translator = Translator(evaluator, self.syntax, any_order=True, any_spelling=True)
            return translator.value(evaluator.evaluated(constant(_parsed(text), evaluator)), depth)

        return self._constants.get((text, depth), make)

    def _container(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        if self.syntax.items.begin is EPSILON:
            # Without brackets a container may be empty.
            return self.unfold(shape, depth)
        return intern_node(
            (Container, id(self), shape, depth), lambda: Container(self, shape, depth)
        )

    def unfold(self, shape: ArrayShape | ObjectShape, depth: int) -> Node:
        """Return the node of the arrays or objects of a shape."""
        if isinstance(shape, ArrayShape):
            return ArrayPlan(shape, self, depth).node()
        members = self.syntax.members
        return self.object(shape, members, lambda term, _: self.value(term, depth + 1), depth)

    def object(
        self,
        shape: ObjectShape,
        syntax: MemberSyntax,
        value_node: Callable[[Term, str | None], Node],
        depth: int = 0,
    ) -> Node:
        """Return the node of the objects of a shape.

        Args:
            shape: The objects.
            syntax: How members are written.
            value_node: Returns the node of a member's value, given its term and its name; the name
                is ``None`` for names that the schema does not list.
            depth: The nesting level of the object.
        """
        return ObjectPlan(shape, self, syntax, depth, value_node).node()

    def has_value(self, term: Term) -> bool:
        """Return whether a term has a value, and all its values can be generated."""
        try:
            if self.evaluator.is_empty(term):
                return False
            for array in self.evaluator.values(term).arrays:
                self.check_distinct(array)
        except UnsupportedSchemaError:
            return False
        return True

    def check_distinct(self, shape: ArrayShape) -> None:
        """Check that an array of unique items never runs out of distinct values.

        Raises:
            UnsupportedSchemaError: The values are too few, or cannot be counted.
        """
        if not shape.unique:
            return
        if shape not in self._checked:
            if shape in self._checking:
                # Its values are being listed, which only lists fewer without this array.
                raise UnsupportedSchemaError("a recursive array", keyword="uniqueItems")
            self._checking.add(shape)
            error: UnsupportedSchemaError | None = None
            try:
                check_distinct(shape, self.evaluator, self._count_values)
            except UnsupportedSchemaError as raised:
                error = raised
            finally:
                self._checking.discard(shape)
            if error is not None and self._checking:
                raise error  # Without the arrays that are being checked it may be another one.
            self._checked[shape] = error
        error = self._checked[shape]
        if error is not None:
            raise error

    def _count_values(self, term: Term, limit: int) -> int:
        """Return a lower bound on the number of a term's values, at most ``limit``."""
        known = Cardinality(self.evaluator).count(term, limit)
        if known < limit <= _LISTED_VALUES:
            values = self.evaluator.values(term)
            scalars = count_scalars(values, limit)
            known = max(known, scalars + self._list_containers(values, limit - scalars))
        return known

    def _list_containers(self, values: ValueSet, limit: int) -> int:
        """Return the number of arrays and objects of a set that are found, at most ``limit``.

        The next value is a shortest text without the texts of the values before.
        """
        found: list[Node] = []
        with suppress(GrammarBudgetError), step_budget(_LISTING_STEPS):
            lister = Translator(self.evaluator, JSON_SYNTAXES["compact"], any_order=False)
            lister._checked, lister._checking = self._checked, self._checking
            containers = lister._containers(values, 0)
            while len(found) < limit:
                text = shortest_word(exclusion(containers, found))
                if text is None:
                    break
                found.append(lister._constant(text.decode(), 0))
        return len(found)


class Container(Lazy):
    """The arrays or the objects of one shape, unfolded on first use."""

    __slots__ = ("depth", "shape", "translator")

    is_composite = True

    def __init__(self, translator: Translator, shape: ArrayShape | ObjectShape, depth: int) -> None:
        super().__init__(min_length=2)
        self.translator = translator
        self.shape = shape
        self.depth = depth
        syntax = translator.syntax
        brackets = syntax.items if isinstance(shape, ArrayShape) else syntax.members
        self.known_first_bytes = brackets.begin.first_bytes

    def expand(self) -> Node:
        """Return the opening bracket and the rest of the value."""
        return self.translator.unfold(self.shape, self.depth)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)
