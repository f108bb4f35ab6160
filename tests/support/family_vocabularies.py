"""Vocabularies in which a family's calls can be written, made here or read from packages."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from small_vocabulary import small_vocabulary
from tokenizers import Tokenizer

from state_machines import Vocabulary
from state_machines.tool_calls import ToolFormat

__all__ = ["family_vocabulary", "read_vocabulary"]

# In the order of their ids; the packages of the third version do not name them in the file.
_TEKKEN = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]"),
)


def family_vocabulary(entry: ToolFormat) -> Vocabulary:
    """Every byte, pieces of JSON, pieces of the format's own texts, and its special tokens."""
    small = small_vocabulary()
    pieces = set()
    for text in (entry.start, entry.end, entry.head, *entry.foot, entry.closing):
        for width in (2, 3, 5, 8):
            pieces |= {text[i : i + width].encode() for i in range(0, len(text), width - 1)}
    ends = [name for name, i in small.special_tokens.items() if i in small.end_token_ids]
    plain = [form for form in small.token_bytes if form is None or not form.startswith(b"\xff<")]
    forms = [*plain, *sorted(pieces - {b""}), *(name.encode() for name in (*ends, *entry.tokens))]
    first = len(forms) - len(entry.tokens)
    last = [first - 1 - i for i in range(len(ends))]
    # Harmony's calls end with an end token.
    last += [first + i for i, name in enumerate(entry.tokens) if name == "<|call|>"]
    names = {name: first + i for i, name in enumerate(entry.tokens)}
    return Vocabulary(forms, end_token_ids=last, special_tokens=names)


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a ``tokenizer.json``, or the file of Mistral's own tokenizer."""
    if path.name == "tokenizer.json":
        return Vocabulary.from_tokenizer(Tokenizer.from_file(str(path)))
    contents = json.loads(path.read_text(encoding="utf-8"))
    specials = [entry["token_str"] for entry in contents.get("special_tokens", ())] or _TEKKEN
    config = contents["config"]
    count = config["default_num_special_tokens"]
    forms: list[bytes | None] = [name.encode() for name in specials]
    forms += [None] * (count - len(forms))
    forms += [base64.b64decode(entry["token_bytes"]) for entry in contents["vocab"]]
    return Vocabulary(
        forms[: config["default_vocab_size"]],
        end_token_ids=[specials.index("</s>")],
        special_tokens={name: token_id for token_id, name in enumerate(specials)},
    )
