"""Compile JSON Schema to grammars: :class:`JsonSchemaStateMachine`.

Four floors; each imports only the floors above in this list:

* ``algebra``: ``terms`` combine schemas by *and*, *or* and *not*. ``value_sets`` are sets of values
  by type, with ``array_shape`` and ``object_shape``.
* ``reader``: from keywords to terms. ``keywords`` is the table of keywords; ``assertions``,
  ``applicators`` and ``unevaluated`` have their readers.
  ``document`` (``$ref``), ``dialects`` (``$schema``) and ``schema_copy`` have the schemas. A
  ``Context`` is the state of a compilation that the floors share.
* ``emptiness``: from terms to value sets. ``evaluation`` evaluates terms, decides which are empty,
  and leaves out properties that no schema lists; ``checks`` evaluates everything that an answer can
  reach.
* ``grammar``: from value sets to grammar nodes. ``translator`` makes the nodes, ``value_syntax``
  says how values are written.

``machine`` is the entry to all floors. The languages of formats, numbers and patterns come from
:mod:`state_machines.reader_languages` and :mod:`state_machines.regex`.
"""

from state_machines.json_schema.machine import JsonSchemaStateMachine, PropertyOrder

__all__ = ["JsonSchemaStateMachine", "PropertyOrder"]
