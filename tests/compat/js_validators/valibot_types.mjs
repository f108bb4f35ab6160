// Types of valibot, by name.

import * as v from "valibot";

const tree = v.object({ value: v.number(), children: v.lazy(() => v.array(tree)) });
const chain = v.object({ head: v.string(), tail: v.lazy(() => v.nullable(chain)) });
const cat = v.object({ kind: v.literal("cat"), lives: v.pipe(v.number(), v.integer(), v.minValue(0)) });
const dog = v.object({ kind: v.literal("dog"), barks: v.boolean() });
const Direction = { Up: "UP", Down: "DOWN" };
const Level = { Low: 0, High: 1 };
const string = (...actions) => v.pipe(v.string(), ...actions);
const number = (...actions) => v.pipe(v.number(), ...actions);

export const types = {
  // Scalars.
  string: v.string(),
  number: v.number(),
  boolean: v.boolean(),
  null: v.null(),
  any: v.any(),
  unknown: v.unknown(),
  literal: v.literal("a"),
  "literal number": v.literal(1.5),
  picklist: v.picklist(["red", "green"]),
  "picklist of both": v.picklist(["a", 1]),
  enum: v.enum(Direction),
  "enum of numbers": v.enum(Level),

  // Numbers.
  integer: number(v.integer()),
  safeInteger: number(v.safeInteger()),
  minValue: number(v.minValue(0)),
  maxValue: number(v.maxValue(0.3)),
  between: number(v.minValue(-1.5), v.maxValue(2.5)),
  "integer between": number(v.integer(), v.minValue(1), v.maxValue(12)),
  gtValue: number(v.gtValue(0)),
  ltValue: number(v.ltValue(0.1)),
  "gtValue and ltValue": number(v.gtValue(1), v.ltValue(2)),
  multipleOf: number(v.multipleOf(5)),
  "multipleOf 0.1": number(v.multipleOf(0.1)),
  "multipleOf 0.25": number(v.multipleOf(0.25)),
  finite: number(v.value(3)),
  values: number(v.values([1, 2, 3])),
  notValue: number(v.integer(), v.notValue(0)),
  notValues: string(v.notValues(["a", "b"]), v.maxLength(1)),

  // Strings.
  minLength: string(v.minLength(2)),
  maxLength: string(v.maxLength(3)),
  length: string(v.length(4)),
  nonEmpty: string(v.nonEmpty()),
  empty: string(v.empty()),
  regex: string(v.regex(/^[A-Z]{2}\d{3}$/)),
  "regex without anchors": string(v.regex(/\d+/)),
  "regex of one character": string(v.regex(/^.$/)),
  "regex negated class": string(v.regex(/^[^a]$/)),
  "regex \\s": string(v.regex(/^\s+$/)),
  startsWith: string(v.startsWith("ab")),
  endsWith: string(v.endsWith("yz")),
  includes: string(v.includes("m.")),
  trim: v.pipe(v.string(), v.minLength(1)),
  email: string(v.email()),
  rfcEmail: string(v.rfcEmail()),
  url: string(v.url()),
  uuid: string(v.uuid()),
  ipv4: string(v.ipv4()),
  ipv6: string(v.ipv6()),
  isoDate: string(v.isoDate()),
  isoDateTime: string(v.isoDateTime()),
  isoTime: string(v.isoTime()),
  isoTimeSecond: string(v.isoTimeSecond()),
  isoTimestamp: string(v.isoTimestamp()),
  isoWeek: string(v.isoWeek()),
  base64: string(v.base64()),
  bic: string(v.bic()),
  cuid2: string(v.cuid2()),
  decimal: string(v.decimal()),
  digits: string(v.digits()),
  domain: string(v.domain()),
  emoji: string(v.emoji()),
  hash: string(v.hash(["md5", "sha1"])),
  hexadecimal: string(v.hexadecimal()),
  hexColor: string(v.hexColor()),
  isrc: string(v.isrc()),
  jwsCompact: string(v.jwsCompact()),
  ksuid: string(v.ksuid()),
  mac: string(v.mac()),
  mac48: string(v.mac48()),
  mac64: string(v.mac64()),
  nanoid: string(v.nanoid()),
  octal: string(v.octal()),
  slug: string(v.slug()),
  ulid: string(v.ulid()),
  "email with maxLength": string(v.email(), v.maxLength(30)),
  value: string(v.value("a")),
  description: string(v.description("A name."), v.minLength(1)),

  // Arrays and tuples.
  array: v.array(v.number()),
  "array minLength": v.pipe(v.array(v.string()), v.minLength(1)),
  "array length": v.pipe(v.array(v.boolean()), v.length(2)),
  "array nonEmpty": v.pipe(v.array(v.boolean()), v.nonEmpty()),
  "array empty": v.pipe(v.array(v.boolean()), v.empty()),
  tuple: v.tuple([v.string(), v.number()]),
  strictTuple: v.strictTuple([v.string(), v.number()]),
  looseTuple: v.looseTuple([v.string(), v.number()]),
  tupleWithRest: v.tupleWithRest([v.string()], v.boolean()),
  "tuple empty": v.strictTuple([]),
  "tuple nested": v.strictTuple([v.strictTuple([v.boolean()]), v.null()]),

  // Objects.
  object: v.object({ name: v.string(), age: number(v.integer()) }),
  strictObject: v.strictObject({ a: v.string() }),
  looseObject: v.looseObject({ a: v.string() }),
  objectWithRest: v.objectWithRest({ a: v.string() }, v.number()),
  "object optional": v.object({ a: v.optional(v.string()), b: v.number() }),
  "object exactOptional": v.object({ a: v.exactOptional(v.string()) }),
  "object nullish": v.object({ a: v.nullish(v.string()) }),
  "object nullable": v.object({ a: v.nullable(v.string()) }),
  "object default": v.object({ a: v.optional(v.string(), "x") }),
  "object undefinedable": v.object({ a: v.undefinedable(v.string()) }),
  "object nested": v.object({ user: v.object({ name: v.string() }) }),
  "object partial": v.partial(v.object({ a: v.string(), b: v.number() })),
  "object pick": v.pick(v.object({ a: v.string(), b: v.number() }), ["a"]),
  "object minEntries": v.pipe(v.record(v.string(), v.number()), v.minEntries(1), v.maxEntries(2)),
  record: v.record(v.string(), v.number()),
  "record of regex": v.record(string(v.regex(/^k\d$/)), v.boolean()),
  "record of minLength": v.record(string(v.minLength(2)), v.boolean()),

  // Unions.
  nullable: v.nullable(v.string()),
  nullish: v.object({ a: v.nullish(v.number(), 3) }),
  union: v.union([v.string(), v.number()]),
  "union of objects": v.union([v.object({ a: v.string() }), v.object({ b: v.number() })]),
  variant: v.variant("kind", [cat, dog]),
  "variant of overlapping": v.variant("kind", [
    v.object({ kind: v.literal("a"), x: v.string() }),
    v.object({ kind: v.literal("a"), y: v.number() }),
  ]),
  intersect: v.intersect([v.object({ a: v.string() }), v.object({ b: v.number() })]),

  // Recursion.
  tree,
  chain,

  // What docs/reader-schemas.md recommends. No text may be refused.
  "instead of isoTime": string(v.regex(/^([01]\d|2[0-3]):[0-5]\d$/)),
  "instead of isoDateTime": string(v.regex(/^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d$/)),
  "instead of isoTimestamp": string(v.isoTimestamp(), v.regex(/T..:..:[0-5]\d(\.\d{1,9})?Z$/)),
  "instead of email": string(v.email(), v.regex(/^[a-z0-9]+([._+-][a-z0-9]+)*@([a-z0-9]+\.)+[a-z]{2,}$/)),
  "instead of url": string(v.url(), v.regex(/^https:\/\/([a-z][a-z0-9]*\.)+[a-z]+(\/[\w.~\/-]*)?$/)),
  "instead of ipv6": string(v.ipv6(), v.regex(/^[^.]*$/)),
  "instead of base64": string(v.base64(), v.regex(/^([A-Za-z\d+\/]{4})*([A-Za-z\d+\/]{2}==|[A-Za-z\d+\/]{3}=)?$/)),
  "instead of maxLength": string(v.maxLength(3), v.regex(/^[\u0000-\ud7ff\ue000-\uffff]*$/)),
  "instead of multipleOf": number(v.safeInteger(), v.multipleOf(5)),

  // The keyword passes through the metadata of a type. No text may be refused.
  "url by x-reader-language": string(v.url(), v.metadata({ "x-reader-language": { language: "url" } })),
};

// The converter refuses these; `errorMode: "ignore"` converts them without the action.
export const partial = {
  "regex with flag i": string(v.regex(/^[a-z]+$/i)),
  "regex with flag u": string(v.regex(/^.$/u)),
  "two regexes": string(v.regex(/^a/), v.regex(/z$/)),
  check: string(v.check((text) => text.length % 2 === 0)),
  creditCard: string(v.creditCard()),
  imei: string(v.imei()),
  ip: string(v.ip()),
  trim: string(v.trim(), v.minLength(1)),
  toLowerCase: string(v.toLowerCase(), v.startsWith("a")),
  graphemes: string(v.maxGraphemes(2)),
  bytes: string(v.maxBytes(3)),
  words: string(v.maxWords("en", 2)),
  codePoints: string(v.maxGraphemes(1)),
  someItem: v.pipe(v.array(v.number()), v.someItem((item) => item > 3)),
  everyItem: v.pipe(v.array(v.number()), v.everyItem((item) => item > 3)),
  forward: v.pipe(
    v.object({ a: v.string(), b: v.string() }),
    v.check((it) => it.a === it.b),
  ),
};
