"""Probe a chat template: render messages that contain unique words, and look for the words.

Templates are programs. Only rendering a message shows whether a template accepts it: otherwise the
template raises, or silently omits the message.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mlx_lm.tokenizer_utils import TokenizerWrapper

_T = TypeVar("_T")


def rendered(
    tokenizer: TokenizerWrapper, messages: Sequence[Mapping[str, Any]], **keywords: Any
) -> str | None:
    """Return the text of messages; ``None`` if the template raises.

    Args:
        tokenizer: Has the template.
        messages: The messages.
        **keywords: Other variables of the template. A generation prompt is added by default.
    """
    copies = [dict(message) for message in messages]
    try:
        text = tokenizer.apply_chat_template(
            copies, tokenize=False, **{"add_generation_prompt": True, **keywords}
        )
    except Exception:
        # Templates may raise anything.
        return None
    return text if isinstance(text, str) else None


def writes(
    tokenizer: TokenizerWrapper,
    messages: Sequence[Mapping[str, Any]],
    words: Sequence[str],
    **keywords: Any,
) -> bool:
    """Return whether the template writes all ``words`` of ``messages``."""
    text = rendered(tokenizer, messages, **keywords)
    return text is not None and all(word in text for word in words)


def once_per_template(
    probe: Callable[[TokenizerWrapper], _T],
) -> Callable[[TokenizerWrapper], _T]:
    """Cache the result of a probe, as long as the tokenizer lives and has the same template."""
    known: weakref.WeakKeyDictionary[TokenizerWrapper, tuple[Any, _T]] = weakref.WeakKeyDictionary()

    @functools.wraps(probe)
    def probed(tokenizer: TokenizerWrapper) -> _T:
        template = getattr(tokenizer, "chat_template", None)
        found = known.get(tokenizer)
        if found is None or found[0] != template:
            found = known[tokenizer] = (template, probe(tokenizer))
        return found[1]

    return probed
