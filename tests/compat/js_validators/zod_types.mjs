// Types of zod, by name.

import { z } from "zod";

const node = z.object({
  value: z.number(),
  get children() {
    return z.array(node);
  },
});
const chain = z.object({
  head: z.string(),
  get tail() {
    return chain.nullable();
  },
});
const left = z.object({
  get right() {
    return right.optional();
  },
});
const right = z.object({
  get left() {
    return left.optional();
  },
});
const expression = z.lazy(() => z.union([z.number(), z.tuple([z.enum(["+", "-"]), expression, expression])]));
const point = z.object({ x: z.number(), y: z.number() }).meta({ id: "Point" });
const address = z.object({ street: z.string().min(1), zip: z.string().regex(/^\d{5}$/), city: z.string() });
const cat = z.object({ kind: z.literal("cat"), lives: z.int().min(0).max(9) });
const dog = z.object({ kind: z.literal("dog"), barks: z.boolean() });
const Direction = { Up: "UP", Down: "DOWN" };
const Level = { Low: 0, High: 1, 0: "Low", 1: "High" };

export const types = {
  // Scalars.
  string: z.string(),
  number: z.number(),
  boolean: z.boolean(),
  null: z.null(),
  any: z.any(),
  unknown: z.unknown(),
  json: z.json(),
  int: z.int(),
  int32: z.int32(),
  uint32: z.uint32(),
  float32: z.float32(),
  float64: z.float64(),
  "number int": z.number().int(),
  "number safe": z.number().safe(),
  "number finite": z.number().finite(),
  literal: z.literal("a"),
  "literal number": z.literal(1.5),
  "literal null": z.literal(null),
  "literal true": z.literal(true),
  literals: z.literal(["a", 1, true, null]),
  enum: z.enum(["red", "green", "blue"]),
  "enum object": z.enum(Direction),
  "enum of numbers": z.enum(Level),
  "enum exclude": z.enum(["a", "b", "c"]).exclude(["b"]),
  "enum extract": z.enum(["a", "b", "c"]).extract(["a"]),
  stringbool: z.stringbool(),

  // Numbers.
  "gt 0": z.number().gt(0),
  "gte 0": z.number().gte(0),
  "lt 0.1": z.number().lt(0.1),
  "lte 0.3": z.number().lte(0.3),
  positive: z.number().positive(),
  nonnegative: z.number().nonnegative(),
  negative: z.number().negative(),
  nonpositive: z.number().nonpositive(),
  between: z.number().min(-1.5).max(2.5),
  "open interval": z.number().gt(1).lt(2),
  "small interval": z.number().gt(0).lt(1e-300),
  percent: z.number().min(0).max(100),
  "multipleOf 0.1": z.number().multipleOf(0.1),
  "multipleOf 0.01": z.number().multipleOf(0.01),
  "multipleOf 3": z.int().multipleOf(3),
  "multipleOf 5 number": z.number().multipleOf(5),
  "multipleOf 2 and 3": z.int().multipleOf(2).multipleOf(3),
  "int between": z.int().min(3).max(7),
  "int gt": z.int().gt(3).lt(9),
  "int positive": z.int().positive(),
  port: z.int().min(1).max(65535),
  "float32 positive": z.float32().positive(),

  // Strings.
  min: z.string().min(2),
  max: z.string().max(3),
  length: z.string().length(4),
  "min and max": z.string().min(1).max(5),
  nonempty: z.string().nonempty(),
  regex: z.string().regex(/^[A-Z]{2}\d{3}$/),
  "regex without anchors": z.string().regex(/\d+/),
  "regex with flag i": z.string().regex(/^[a-z]+$/i),
  "regex with flag s": z.string().regex(/^a.b$/s),
  "regex with flag m": z.string().regex(/^a$/m),
  "regex with flag u": z.string().regex(/^\p{L}+$/u),
  "regex of astral characters": z.string().regex(/^.$/u),
  "regex of one character": z.string().regex(/^.$/),
  "regex with lookahead": z.string().regex(/^(?=.*\d)[a-z\d]{2,4}$/),
  "regex with min": z.string().regex(/^a*$/).min(2).max(4),
  "two regexes": z.string().regex(/^a/).regex(/z$/),
  "regex \\w": z.string().regex(/^\w+$/),
  "regex \\s": z.string().regex(/^\s+$/),
  "regex negated class": z.string().regex(/^[^a]$/),
  startsWith: z.string().startsWith("ab"),
  endsWith: z.string().endsWith("yz"),
  includes: z.string().includes("m"),
  "startsWith and endsWith": z.string().startsWith("a").endsWith("z"),
  lowercase: z.string().lowercase(),
  uppercase: z.string().uppercase(),
  trim: z.string().trim().min(1),
  "trim max": z.string().trim().max(2),
  toLowerCase: z.string().toLowerCase().regex(/^[a-z]*$/),
  toUpperCase: z.string().toUpperCase().startsWith("A"),
  normalize: z.string().normalize("NFD").max(3),
  slugify: z.string().slugify(),

  // Formats.
  email: z.email(),
  "email html5": z.email({ pattern: z.regexes.html5Email }),
  "email rfc5322": z.email({ pattern: z.regexes.rfc5322Email }),
  "email unicode": z.email({ pattern: z.regexes.unicodeEmail }),
  uuid: z.uuid(),
  uuidv4: z.uuidv4(),
  uuidv6: z.uuidv6(),
  uuidv7: z.uuidv7(),
  guid: z.guid(),
  url: z.url(),
  "url with protocol": z.url({ protocol: /^https$/ }),
  "url with hostname": z.url({ hostname: /^example\.com$/ }),
  httpUrl: z.httpUrl(),
  hostname: z.hostname(),
  emoji: z.emoji(),
  base64: z.base64(),
  base64url: z.base64url(),
  hex: z.hex(),
  hash: z.hash("sha256"),
  jwt: z.jwt(),
  nanoid: z.nanoid(),
  cuid: z.cuid(),
  cuid2: z.cuid2(),
  ulid: z.ulid(),
  ksuid: z.ksuid(),
  xid: z.xid(),
  ipv4: z.ipv4(),
  ipv6: z.ipv6(),
  mac: z.mac(),
  cidrv4: z.cidrv4(),
  cidrv6: z.cidrv6(),
  e164: z.e164(),
  "iso date": z.iso.date(),
  "iso time": z.iso.time(),
  "iso time precision": z.iso.time({ precision: 3 }),
  "iso datetime": z.iso.datetime(),
  "iso datetime offset": z.iso.datetime({ offset: true }),
  "iso datetime local": z.iso.datetime({ local: true }),
  "iso datetime precision": z.iso.datetime({ precision: 3 }),
  "iso datetime minutes": z.iso.datetime({ precision: -1 }),
  "iso duration": z.iso.duration(),
  "stringFormat": z.stringFormat("cool", /^cool-\d+$/),
  "template literal": z.templateLiteral(["id-", z.number()]),
  "template literal of units": z.templateLiteral([z.int(), z.enum(["px", "em"])]),
  "template literal of strings": z.templateLiteral([z.string(), ":", z.string().min(1)]),

  // Arrays and tuples.
  array: z.array(z.number()),
  "array min": z.array(z.string()).min(1),
  "array max": z.array(z.boolean()).max(2),
  "array length": z.array(z.int()).length(2),
  "array nonempty": z.array(z.int()).nonempty(),
  "array of arrays": z.array(z.array(z.boolean())),
  tuple: z.tuple([z.string(), z.number()]),
  "tuple rest": z.tuple([z.string()], z.number()),
  "tuple optional": z.tuple([z.string(), z.number().optional()]),
  "tuple empty": z.tuple([]),
  "tuple nested": z.tuple([z.tuple([z.int()]), z.boolean()]),
  "array of tuples": z.array(z.tuple([z.string(), z.boolean()])),

  // Objects.
  object: z.object({ name: z.string(), age: z.int().min(0) }),
  strictObject: z.strictObject({ a: z.string() }),
  looseObject: z.looseObject({ a: z.string() }),
  catchall: z.object({ a: z.string() }).catchall(z.number()),
  "object empty": z.object({}),
  "object optional": z.object({ a: z.string().optional(), b: z.number() }),
  "object exactOptional": z.object({ a: z.string().exactOptional() }),
  "object nullish": z.object({ a: z.string().nullish() }),
  "object nullable": z.object({ a: z.string().nullable() }),
  "object default": z.object({ a: z.string().default("x"), b: z.int().default(3) }),
  "object prefault": z.object({ a: z.string().prefault("x") }),
  "object catch": z.object({ a: z.int().catch(3) }),
  "object nested": z.object({ user: z.object({ home: address, work: address.optional() }) }),
  "object partial": address.partial(),
  "object required": z.object({ a: z.string().optional() }).required(),
  "object pick": address.pick({ zip: true }),
  "object omit": address.omit({ zip: true }),
  "object extend": address.extend({ country: z.string().length(2) }),
  "object with odd names": z.object({ "a b": z.int(), "$x": z.string(), "é": z.boolean(), '"': z.null() }),
  "object readonly": z.object({ a: z.string() }).readonly(),
  "object with meta": z.object({ from: point, to: point }),
  "object with description": z.object({ a: z.string().describe("An a.") }),
  "object brand": z.object({ id: z.string().brand("Id") }),
  record: z.record(z.string(), z.number()),
  "record of enum": z.record(z.enum(["a", "b"]), z.int()),
  "record partial": z.partialRecord(z.enum(["a", "b"]), z.int()),
  "record of regex": z.record(z.string().regex(/^k\d+$/), z.boolean()),
  "record of numbers": z.record(z.number(), z.string()),
  "record of ints": z.record(z.int(), z.string()),
  "record of bounded ints": z.record(z.int().min(10), z.string()),
  "record of uuid": z.record(z.uuid(), z.null()),
  "record of min": z.record(z.string().min(2), z.int()),
  "record loose": z.looseRecord(z.string().regex(/^x-/), z.int()),

  // Unions.
  nullable: z.string().nullable(),
  union: z.union([z.string(), z.number()]),
  "union of objects": z.union([z.object({ a: z.string() }), z.object({ b: z.number() })]),
  "union of strict objects": z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.number() })]),
  xor: z.xor([z.object({ a: z.string() }), z.object({ b: z.number() })]),
  "discriminated union": z.discriminatedUnion("kind", [cat, dog]),
  "discriminated union of lists": z.array(z.discriminatedUnion("kind", [cat, dog])),
  "discriminated union nested": z.object({ pet: z.discriminatedUnion("kind", [cat, dog]).nullable() }),
  "discriminated union by enum": z.discriminatedUnion("t", [
    z.object({ t: z.enum(["a", "b"]), x: z.int() }),
    z.object({ t: z.literal(3), y: z.string() }),
  ]),
  intersection: z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
  "intersection of strings": z.intersection(z.string().min(2), z.string().max(3)),
  "intersection of unions": z.intersection(z.union([z.string(), z.int()]), z.union([z.int(), z.boolean()])),
  "and": z.object({ a: z.string() }).and(z.object({ a: z.string().max(2), b: z.int() })),

  // Recursion.
  tree: node,
  chain,
  "mutual recursion": left,
  expression,

  // Code.
  refine: z.string().refine((text) => text.length % 2 === 0),
  "refine object": z
    .object({ password: z.string(), confirm: z.string() })
    .refine((it) => it.password === it.confirm),
  superRefine: z.array(z.int()).superRefine((list, context) => {
    if (new Set(list).size !== list.length) context.addIssue({ code: "custom", message: "not unique" });
  }),
  check: z.string().check((context) => {
    if (context.value.includes("a")) context.issues.push({ code: "custom", input: context.value, message: "a" });
  }),
  "pipe": z.string().pipe(z.string().max(3)),
  "transform": z.string().transform((text) => text.length),
  "transform pipe": z.string().transform((text) => text.length).pipe(z.number().min(3)),
  "preprocess": z.preprocess((value) => value, z.int()),
  "codec": z.codec(z.iso.datetime(), z.date(), { decode: (text) => new Date(text), encode: (date) => date.toISOString() }),
  "coerce number": z.coerce.number(),
  "coerce string": z.coerce.string().min(2),
  "default": z.string().default("x"),
  "nonoptional": z.object({ a: z.nonoptional(z.string().optional()) }),
  "apply overwrite": z.string().overwrite((text) => text.slice(1)).min(2),

  // What docs/reader-schemas.md recommends. No text may be refused.
  "instead of trim": z.string().trim().regex(/\S/).min(1),
  "instead of the flag i": z.string().regex(/^[A-Za-z]+$/),
  "instead of .": z.string().regex(/^[\u0000-\ud7ff\ue000-\uffff]$/),
  "instead of url": z.url().regex(/^https:\/\/([a-z][a-z0-9]*\.)+[a-z]+(\/[\w.~\/-]*)?$/),
  "instead of int keys": z.record(z.string().regex(/^(0|[1-9]\d{0,8})$/), z.string()),
  "instead of pipe": z.string().max(3).pipe(z.string().max(3)),
  // The keyword passes through the metadata of a type. No text may be refused.
  "url by x-reader-language": z.url().meta({ "x-reader-language": { language: "url" } }),
  "httpUrl by x-reader-language": z.url({ protocol: /^https$/ }).meta({
    "x-reader-language": { language: "url", allowed_schemes: ["https"] },
  }),
};
