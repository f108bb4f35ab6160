"""Chat templates of well-known families, reduced to their rules on roles, and tokenizers with them."""

from __future__ import annotations

import copy

from mlx_lm.tokenizer_utils import TokenizerWrapper
from transformers import PreTrainedTokenizerFast

__all__ = [
    "CHAT_TEMPLATES",
    "with_chat_template",
]

_ALTERNATION = (
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
)
_FIRST_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
)
_CONTENT = (
    "{% if m['content'] is string %}{{ m['content'] | trim }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'text' %}{{ part['text'] | trim }}"
    "{% endif %}{% endfor %}{% endif %}"
)

_GEMMA2 = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for m in messages %}"
    + _ALTERNATION
    + "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_GEMMA3 = (
    _FIRST_SYSTEM
    + "{% for m in rest %}"
    + _ALTERNATION
    + "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{% if loop.first and system %}{{ system + '\n\n' }}{% endif %}"
    + _CONTENT
    + "<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_LLAMA2 = (
    _FIRST_SYSTEM
    + "{% for m in rest %}"
    + _ALTERNATION
    + "{% set content = m['content'] %}{% if loop.first and system %}"
    "{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + content %}{% endif %}"
    "{% if m['role'] == 'user' %}<s>[INST] {{ content.strip() }} [/INST]"
    "{% else %} {{ content.strip() }} </s>{% endif %}{% endfor %}"
)
_MISTRAL_1 = (
    "<s>{% for m in messages %}"
    + _ALTERNATION
    + "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% elif m['role'] == 'assistant' %}{{ m['content'] }}</s> {% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
# Calls and results are no turns. The system message is written before the last turn of the user.
_MISTRAL_3 = (
    _FIRST_SYSTEM + "{% set ns = namespace(index=0) %}"
    "{% set questions = rest | selectattr('role', 'equalto', 'user') | list %}<s>{% for m in rest %}"
    "{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{% if (m.role == 'user') != (ns.index % 2 == 0) %}{{ raise_exception('After the optional "
    "system message, conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{% set ns.index = ns.index + 1 %}{% endif %}{% endfor %}"
    "{% for m in rest %}{% if m.role == 'user' %}"
    "{% if tools and m == questions[-1] %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "[INST] {% if loop.last and system %}{{ system + '\n\n' }}{% endif %}{{ m.content }}[/INST]"
    "{% elif m.tool_calls %}[TOOL_CALLS] {% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('Tool call IDs should be 9 characters') }}{% endif %}"
    "{{ c.function | tojson }} {{ c.id }}{% endfor %}</s>"
    "{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }} {{ m.tool_call_id }}[/TOOL_RESULTS]"
    "{% elif m.role == 'assistant' %} {{ m.content }}</s>"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported') }}{% endif %}"
    "{% endfor %}"
)
_ZEPHYR = (
    "{% for m in messages %}{% if m['role'] in ['user', 'system', 'assistant'] %}"
    "<|{{ m['role'] }}|>\n{{ m['content'] }}</s>\n{% endif %}"
    "{% if loop.last and add_generation_prompt %}<|assistant|>\n{% endif %}{% endfor %}"
)
# Raises without a question, and keeps system messages but the first out.
_QWEN3_5 = (
    "{% set ns = namespace(asked=false) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.asked = true %}{% endif %}{% endfor %}"
    "{% if not ns.asked %}{{ raise_exception('No user query found in messages.') }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'system' %}{% if not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}{% endif %}"
    "<|im_start|>{{ m.role }}\n"
    + _CONTENT
    + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Only the last system message is written, before all others.
_LAST_SYSTEM = (
    "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% set ns.system = m.content %}{% endif %}{% endfor %}{{ ns.system }}"
    "{% for m in messages %}{% if m.role == 'user' %}<|User|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<|Assistant|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|>{% endif %}"
)

CHAT_TEMPLATES = {
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "last_system": _LAST_SYSTEM,
    "llama2": _LLAMA2,
    "mistral1": _MISTRAL_1,
    "mistral3": _MISTRAL_3,
    "qwen3_5": _QWEN3_5,
    "zephyr": _ZEPHYR,
}


def fast_tokenizer(tokenizer: TokenizerWrapper) -> PreTrainedTokenizerFast:
    """Return the tokenizer that mlx-lm's wrapper is about."""
    return tokenizer._tokenizer


def with_chat_template(tokenizer: TokenizerWrapper, template: str | None) -> TokenizerWrapper:
    """Return a copy of a tokenizer with another chat template."""
    copied = copy.deepcopy(fast_tokenizer(tokenizer))
    copied.chat_template = template
    wrapper = TokenizerWrapper(copied)
    wrapper.has_chat_template = template is not None
    return wrapper
