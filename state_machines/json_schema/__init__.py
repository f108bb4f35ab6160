"""JSON Schema to grammar: canonicalise, then translate."""

from state_machines.json_schema.machine import JsonSchemaStateMachine, PropertyOrder

__all__ = ["JsonSchemaStateMachine", "PropertyOrder"]
