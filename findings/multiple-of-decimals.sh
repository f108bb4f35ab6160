#!/usr/bin/env bash
# One schema, {"multipleOf": 0.1}, means three different sets to the validators that emit and read it.
#
# Versions: valibot 1.5.0 with @valibot/to-json-schema 1.8.0, zod 4.6.7, typebox 1.4.3,
# ajv 8.20.0 (Node.js 20).
#
# valibot emits multipleOf: 0.1 for v.multipleOf(0.1) and tests `value % 0.1 === 0`, so that it refuses 1 and 0.3
# and accepts 0.2. ajv divides, so that it accepts 1 and refuses 0.3. zod and typebox accept all of them. A number that
# the emitted schema admits by its specification is thus refused by the type that emitted the schema.
#
# Output seen:
#             0.1   0.2   0.3   0.7   1
#   valibot   true  true  false false false
#   ajv       true  true  false false true
#   zod       true  true  true  true  true
#   typebox   true  true  true  true  true
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts \
    valibot@1.5.0 @valibot/to-json-schema@1.8.0 zod@4.6.7 typebox@1.4.3 ajv@8.20.0
cat >check.mjs <<'JS'
import { toJsonSchema } from "@valibot/to-json-schema";
import Ajv from "ajv";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import * as v from "valibot";
import { z } from "zod";

const numbers = [0.1, 0.2, 0.3, 0.7, 1];
const tenths = v.pipe(v.number(), v.multipleOf(0.1));
const { $schema, ...schema } = toJsonSchema(tenths);
const divides = new Ajv().compile(schema);
const ofTypebox = Compile(Type.Number({ multipleOf: 0.1 }));
const readers = {
  valibot: (value) => v.safeParse(tenths, value).success,
  ajv: (value) => divides(value),
  zod: (value) => z.number().multipleOf(0.1).safeParse(value).success,
  typebox: (value) => ofTypebox.Check(value),
};
const expected = {
  valibot: "true true false false false",
  ajv: "true true false false true",
  zod: "true true true true true",
  typebox: "true true true true true",
};
console.log(JSON.stringify(schema), "for", numbers.join(" "));
let changed = 0;
for (const [name, read] of Object.entries(readers)) {
  const verdicts = numbers.map(read).join(" ");
  console.log(name.padEnd(8), verdicts);
  changed += verdicts !== expected[name];
}
process.exit(changed ? 1 : 0);
JS
node check.mjs
