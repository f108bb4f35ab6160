"""Whether formats are texts without bounds, and whether they may end in free text."""

from __future__ import annotations

from state_machines.structural_tags.formats import (
    Alternatives,
    AnyText,
    AnyTokens,
    Dispatch,
    Format,
    OtherToken,
    Repeated,
    SeparatedTags,
    Series,
    Tag,
    TokenDispatch,
    TriggeredTags,
)


def is_unlimited(content: Format) -> bool:
    """Whether XGrammar counts a format as unlimited: its end must be found in the text."""
    match content:
        case AnyText() | TriggeredTags() | Dispatch() | SeparatedTags():
            return True
        case AnyTokens() | TokenDispatch():
            return True
        case Series() | Alternatives():
            return any(is_unlimited(each) and not has_excludes(each) for each in content.elements)
        case Repeated():
            if content.max_count is None:
                return True
            return content.max_count != 0 and is_unlimited(content.content)
    return False


def has_excludes(content: Format) -> bool:
    """Whether a format has strings that its free text does not contain."""
    kinds = AnyText | TriggeredTags | Dispatch | AnyTokens | TokenDispatch
    return isinstance(content, kinds) and bool(content.excludes)


def ends_in_text(content: Format) -> bool:
    """Whether free text may be the end of a format."""
    match content:
        case AnyText() | Dispatch() | TriggeredTags():
            return True
        case AnyTokens() | OtherToken() | TokenDispatch():
            return True
        case Series():
            return any(map(ends_in_text, content.elements))
        case Alternatives():
            return any(map(ends_in_text, content.elements))
        case Repeated():
            return ends_in_text(content.content)
        case SeparatedTags():
            return any(map(ends_in_text, content.tags))
        case Tag():
            ends = content.ends
            return isinstance(ends, tuple) and not all(ends) and ends_in_text(content.content)
    return False
