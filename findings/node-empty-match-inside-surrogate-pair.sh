#!/usr/bin/env bash
# Node: a regular expression with the flag u matches the empty text inside a surrogate pair.
#
# Versions: Node 26.10.0 (npm package node@26.10.0); the same with 22.23.3 and 20.20.2.
#
# With the flag u, RegExpBuiltinExec of ECMA-262 advances by code points (AdvanceStringIndex), so a
# match of "\u{10400}" begins at index 0 or 2. V8 also tries index 1, between the two halves, where
# look-arounds see two lone surrogates. (?<!\p{L})(?!\p{L}), "neither behind nor before a letter", is
# therefore found in the text of the single letter U+10400. A match that consumes a character is not
# found there, so /(?<!\p{L})\P{L}/u is right. A JSON Schema with such a pattern admits texts in
# validators that use RegExp, such as ajv, which others refuse.
#
# Output seen:
#   (?<!\p{L})(?!\p{L}) true at 1
#   (?!\p{L}) true at 1
#   (?<!.)(?!.) true at 1
#   (?<!\p{L})\P{L} false
# Right: false, true at 2, false, false.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund node@26.10.0 >/dev/null
cat >matches.js <<'EOF'
for (const pattern of ["(?<!\\p{L})(?!\\p{L})", "(?!\\p{L})", "(?<!.)(?!.)", "(?<!\\p{L})\\P{L}"]) {
  const match = new RegExp(pattern, "u").exec("\u{10400}");
  console.log(pattern, match === null ? "false" : `true at ${match.index}`);
}
EOF
./node_modules/.bin/node matches.js | tee output
diff output - <<'EOF'
(?<!\p{L})(?!\p{L}) true at 1
(?!\p{L}) true at 1
(?<!.)(?!.) true at 1
(?<!\p{L})\P{L} false
EOF
