"""What is said to a model, from a caller's form of it to token ids.

Reading order: ``content`` (what a turn is made of), ``interaction`` (one turn), ``openai_messages``
(as OpenAI writes it), ``raw_prompt`` (what is no conversation), ``messages`` (any of these as
dicts for templates), ``chat_template`` (what a template can write), ``prompts`` (token ids).
"""
