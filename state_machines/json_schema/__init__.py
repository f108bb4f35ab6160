"""Compile JSON Schema to grammars: :class:`JsonSchemaStateMachine`.

In the order in which a schema passes through them:

* ``keywords`` is the table of keywords, and reads schemas by it. ``assertions``, ``applicators``
  and ``unevaluated`` have the readers of keywords, ``formats`` the languages of ``format``.
* ``document`` (``$ref``), ``dialects`` (``$schema``) and ``schema_copy`` have the schemas.
* ``terms`` combines schemas by *and*, *or* and *not*; ``value_sets`` are sets of values by type,
  with ``numbers``, ``arrays`` and ``objects``; ``evaluator`` evaluates terms to value sets and
  decides which are empty.
* ``checks`` evaluates everything that an answer can reach.
* ``compiler`` makes grammar nodes of value sets, ``value_syntax`` says how values are written, and
  ``machine`` has the state machine.
"""

from state_machines.json_schema.machine import JsonSchemaStateMachine, PropertyOrder

__all__ = ["JsonSchemaStateMachine", "PropertyOrder"]
