"""The strings and numbers that readers read, as languages of code points.

* ``table``: the languages that the validators of typed libraries read, by name. JSON Schema cannot
  say which strings pydantic or msgspec read as a date, a decimal or a URL. A string schema names
  the language instead, in the keyword ``x-reader-language``.
* ``formats``: the languages of ``format`` in JSON Schema, by name.
* ``numbers``: sets of numbers, and the spellings of JSON numbers, which readers round to doubles.

Every text of a language is read by its reader and satisfies its constraints. The texts that a
person or a program ordinarily writes are in the language; each module says which spellings are
left out. One module has the languages of one concept.
"""
