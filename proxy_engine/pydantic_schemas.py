"""JSON Schemas of pydantic types, as everything in this package compiles them."""

from state_machines.pydantic_schemas import ClosedJsonSchema

__all__ = ["ClosedJsonSchema"]
