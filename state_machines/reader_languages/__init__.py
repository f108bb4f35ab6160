"""The strings that the validators of typed libraries read, as languages of code points.

JSON Schema cannot say which strings pydantic or msgspec read as a date, a decimal or a URL. A
string schema names the language instead, in the keyword ``x-reader-language``. Every text of a
language is read by the validator and satisfies its constraints. The texts that a person or a
program ordinarily writes are in the language; each module says which spellings are left out.

:data:`LANGUAGES` is the table, by :mod:`~state_machines.reader_languages.table`. One module has the
languages of one concept.
"""

from state_machines.reader_languages.keyword import READER_LANGUAGE, without_reader_languages
from state_machines.reader_languages.table import LANGUAGES, reader_language

__all__ = ["LANGUAGES", "READER_LANGUAGE", "reader_language", "without_reader_languages"]
