#!/usr/bin/env bash
# zod 4.6.7: z.fromJSONSchema requires only the names that are also listed in `properties`.
#
# The function is an error for keywords that it does not know, such as `not`, `if` and `dependentRequired`. Some that it
# knows lose their effect without an error. A required name is optional unless the same schema has a property of that
# name, so that an allOf with {"required": [...]} requires nothing. Bounds have no effect without a `type` beside them.
# An object as const or in enum is compared by identity, so that no value is read. z.guid() does not read back: its
# own schema says "uuid", whose version and variant are then checked.
#
# Output seen (Node.js 20): schema, value, ajv 8.20.0, zod
#   {"type":"object","required":["id"]}                                    {}         false  true
#   {"type":"object","properties":{"id":{}},"allOf":[{"required":["id"]}]} {}         false  true
#   {"type":"object","additionalProperties":{...},"required":["id"]}       {}         false  true
#   {"minimum":3}                                                          1          false  true
#   {"const":{"a":1}}                                                      {"a":1}    true   false
#   {"type":"string","format":"uuid","pattern":...} of z.guid()            a GUID     true   false
#   {"type":"object","properties":{"id":{}},"required":["id"]}             {}         false  false
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts zod@4.6.7 ajv@8.20.0 ajv-formats@3.0.1
cat >check.mjs <<'JS'
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { z } from "zod";

const ajv = new Ajv2020({ strict: false });
addFormats.default(ajv);
const uuid = "12345678-1234-5678-1234-567812345678";
const guid = z.toJSONSchema(z.guid());
const cases = [
  [{ type: "object", required: ["id"] }, {}, false, true],
  [{ type: "object", properties: { id: {} }, allOf: [{ required: ["id"] }] }, {}, false, true],
  [{ type: "object", additionalProperties: { type: "string" }, required: ["id"] }, {}, false, true],
  [{ minimum: 3 }, 1, false, true],
  [{ const: { a: 1 } }, { a: 1 }, true, false],
  [guid, uuid, true, false],
  [{ type: "object", properties: { id: {} }, required: ["id"] }, {}, false, false],
];
let changed = z.guid().safeParse(uuid).success ? 0 : 1;
for (const [schema, value, byAjv, byZod] of cases) {
  const found = [ajv.validate(schema, value), z.fromJSONSchema(schema).safeParse(value).success];
  console.log(JSON.stringify(schema), JSON.stringify(value), "ajv", found[0], "zod", found[1]);
  changed += found[0] !== byAjv || found[1] !== byZod;
}
process.exit(changed ? 1 : 0);
JS
node check.mjs
