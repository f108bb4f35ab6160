"""Prompts of every form, converted once to interactions and then to token ids.

Reading order: ``content`` and ``interaction`` (the canonical message), ``content_reading`` (dicts
to content), ``raw_prompt`` (prompts that bypass the chat template), ``messages`` (prompts to
interactions to template messages), ``template_probe`` (whether a template writes a message),
``chat_template`` (the message form it can write), ``template_adaptation`` (the order of roles it
accepts), ``control_tokens`` (texts that spell them, and the encoding of rendered prompts),
``tool_text`` (tools as plain text), ``prompts`` (token ids), ``message_boundaries``
(prefixes that prompts share), ``tool_format_detection`` (a model's tool format and
reasoning markers).
"""
