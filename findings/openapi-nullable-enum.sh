#!/usr/bin/env bash
# zod 4.6.7 and @valibot/to-json-schema 1.8.0, target "openapi-3.0": schemas of nullable types refuse null.
#
# OpenAPI 3.0.3 (4.7.24): nullable adds null to the adjacent `type`, "only if type is explicitly defined within
# the same Schema Object". An adjacent `enum` still has to list null. Both converters add `nullable: true` and
# leave `enum` as it is, and they write it beside `anyOf` and `allOf` without a `type`. ajv, which implements
# nullable, refuses null under the first schema and does not compile the others. For a recursive type (the last)
# the emitted schema has no finite value at all, since `tail` is required and never null.
#
# Output seen:
#   zod enum        {"nullable":true,"type":"string","enum":["a","b"]}           type: true  ajv: false
#   valibot enum    {"enum":["a","b"],"type":"string","nullable":true}           type: true  ajv: false
#   zod union       {"nullable":true,"anyOf":[{"type":"string"},{"type":"number"}]}
#                   type: true  ajv: "nullable" cannot be used without "type"
#   zod recursive   {"nullable":true,"allOf":[{"$ref":"#"}]}
#                   type: true  ajv: "nullable" cannot be used without "type"
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts \
    valibot@1.5.0 @valibot/to-json-schema@1.8.0 zod@4.6.7 ajv@8.20.0
cat >check.mjs <<'JS'
import { toJsonSchema } from "@valibot/to-json-schema";
import Ajv from "ajv";
import * as v from "valibot";
import { z } from "zod";

const target = "openapi-3.0";
const chain = z.object({
  head: z.string(),
  get tail() {
    return chain.nullable();
  },
});
const choice = z.enum(["a", "b"]).nullable();
const either = z.union([z.string(), z.number()]).nullable();
const picked = v.nullable(v.picklist(["a", "b"]));
const cases = [
  ["zod enum", z.toJSONSchema(choice, { target }), choice.safeParse(null).success],
  ["valibot enum", toJsonSchema(picked, { target }), v.safeParse(picked, null).success],
  ["zod union", z.toJSONSchema(either, { target }), either.safeParse(null).success],
  [
    "zod recursive",
    z.toJSONSchema(chain, { target }).properties.tail,
    chain.safeParse({ head: "a", tail: null }).success,
  ],
];
let changed = 0;
for (const [name, schema, isRead] of cases) {
  let verdict;
  try {
    verdict = new Ajv({ strict: false }).compile(schema)(null);
  } catch (error) {
    verdict = error.message;
  }
  console.log(name, JSON.stringify(schema), "type:", isRead, "ajv:", verdict);
  changed += !isRead || verdict === true;
}
process.exit(changed ? 1 : 0);
JS
node check.mjs
