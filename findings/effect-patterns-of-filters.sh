#!/usr/bin/env bash
# effect 3.22.4: the JSON Schema of some filters of strings admits other texts than the filter.
#
# Schema.includes, startsWith and endsWith write their text into `pattern` without escaping it, so a full stop is
# any character. The first character of Schema.Capitalized and of Schema.Uncapitalized is optional in the pattern, so
# the pattern admits every text without line breaks. Decoding uses the filter, and refuses these texts.
#
# Output seen:
#   includes("1.5")   pattern .*1.5.*        "version 125"  schema true  decoded false
#   startsWith("v1.") pattern ^v1.           "v10"          schema true  decoded false
#   endsWith(".md")   pattern ^.*.md$        "cmd"          schema true  decoded false
#   Capitalized       pattern ^[^a-z]?.*$    "paris"        schema true  decoded false
#   Uncapitalized     pattern ^[^A-Z]?.*$    "Paris"        schema true  decoded false
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts effect@3.22.4 ajv@8.20.0
cat >check.mjs <<'JS'
import { Ajv } from "ajv";
import { Either, JSONSchema, Schema } from "effect";

const cases = [
  ['includes("1.5")', Schema.String.pipe(Schema.includes("1.5")), "version 125"],
  ['startsWith("v1.")', Schema.String.pipe(Schema.startsWith("v1.")), "v10"],
  ['endsWith(".md")', Schema.String.pipe(Schema.endsWith(".md")), "cmd"],
  ["Capitalized", Schema.Capitalized, "paris"],
  ["Uncapitalized", Schema.Uncapitalized, "Paris"],
];
let isAsDescribed = true;
for (const [name, schema, text] of cases) {
  const written = JSONSchema.make(schema);
  const { pattern } = written.$defs?.[name] ?? written;
  const isAdmitted = new Ajv({ strict: false }).validate(written, text);
  const isDecoded = Either.isRight(Schema.decodeUnknownEither(schema)(text));
  console.log(name, "pattern", pattern, JSON.stringify(text), "schema", isAdmitted, "decoded", isDecoded);
  isAsDescribed &&= isAdmitted && !isDecoded;
}
process.exit(isAsDescribed ? 0 : 1);
JS
node check.mjs
