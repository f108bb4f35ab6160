#!/usr/bin/env bash
# tokenizers 0.23.3: in a byte-level tokenizer, an added token whose text has letters of Latin-1 beyond
# ASCII is encoded as one token, and decode() of this token gives another text.
#
# The byte-level decoder maps every character of every token, added ones included, to a byte. "ö" and "ß"
# are in its table (0xF6, 0xDF), so the bytes are no UTF-8. An added token with a character outside of the
# table, such as "日本" or one with a space, is decoded as it is.
#
# Output seen (tokenizers 0.23.3, Python 3.11):
#   größe -> 'gr��e'
#   Ã© -> 'é'
#   日本 -> '日本'
#   große Stadt -> 'große Stadt'
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check "tokenizers==0.23.3" 2>/dev/null
"$directory/venv/bin/python" - <<'PY'
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
texts = ["größe", "Ã©", "日本", "große Stadt"]
tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts])
found = {}
for text in texts:
    ids = tokenizer.encode(text).ids
    assert len(ids) == 1, ids
    found[text] = tokenizer.decode(ids)
    print(f"{text} -> {found[text]!r}")
expected = {"größe": "gr\ufffd\ufffde", "Ã©": "é", "日本": "日本", "große Stadt": "große Stadt"}
sys.exit(found != expected)
PY
