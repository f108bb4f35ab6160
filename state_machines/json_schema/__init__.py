"""Compile JSON Schema to grammars: :class:`JsonSchemaStateMachine`."""

from state_machines.json_schema.machine import JsonSchemaStateMachine, PropertyOrder

__all__ = ["JsonSchemaStateMachine", "PropertyOrder"]
