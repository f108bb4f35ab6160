"""Types as response formats: from a type to the JSON that its own reader accepts.

A type is read by the library that defines it, so its schema describes the texts that this reader
accepts. The library's own JSON Schema also admits texts that the reader refuses. Strings that JSON
Schema cannot describe have the keyword ``x-reader-language``, a language of
:mod:`state_machines.reader_languages`.

Reading order: :mod:`~state_machines.type_readers.type_schema` (a schema while it is built),
:mod:`~state_machines.type_readers.pydantic_reader` (the table of pydantic's core schemas) with
:mod:`~state_machines.type_readers.core_reader` (its state),
:mod:`~state_machines.type_readers.pydantic_scalars`,
:mod:`~state_machines.type_readers.pydantic_listed`,
:mod:`~state_machines.type_readers.pydantic_containers`,
:mod:`~state_machines.type_readers.pydantic_members` and
:mod:`~state_machines.type_readers.pydantic_functions`;
:mod:`~state_machines.type_readers.msgspec_reader` (the table of msgspec's types) with
:mod:`~state_machines.type_readers.msgspec_definitions` (the generator of a schema),
:mod:`~state_machines.type_readers.msgspec_scalars` and
:mod:`~state_machines.type_readers.msgspec_classes`;
:mod:`~state_machines.type_readers.recognition` (which types msgspec reads).
"""
