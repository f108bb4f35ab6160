"""Prompts of every form, converted once to interactions and then to token ids.

Reading order: ``parsing`` (dicts of every form, and dataclasses that pydantic checks), ``content``
and ``interaction`` (the canonical message), ``messages`` (prompts to interactions to template
messages), ``control_tokens`` (texts that spell them, and the encoding of rendered prompts),
``chat_template`` (the order of roles and the form of calls that a template accepts, and their
detection), ``schema_text`` and ``tool_text`` (response formats and tools as plain text),
``prompts`` (token ids, other inputs of the model, and prefixes that prompts share),
``tool_format_detection`` (a model's tool format and reasoning markers, by source),
``response_templates`` (compiled and verified).
"""
