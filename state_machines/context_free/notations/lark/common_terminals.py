r"""The terminals that ``%import common.…`` names, as regular expressions.

The names are those of the Lark toolkit. As in llguidance, ``ESCAPED_STRING`` may contain line
feeds, and ``NUMBER`` has an exponent only behind a fraction or directly behind the digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_INT = "[0-9]+"
_SIGN = "[+-]?"
_EXPONENT = "[eE][+-]?[0-9]+"
_DECIMAL = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"
_FLOAT = f"(?:{_DECIMAL}(?:{_EXPONENT})?|[0-9]+{_EXPONENT})"
_NUMBER = f"(?:{_FLOAT}|{_INT})"

COMMON_TERMINALS: Mapping[str, str] = MappingProxyType(
    {
        "DIGIT": "[0-9]",
        "HEXDIGIT": "[0-9A-Fa-f]",
        "INT": _INT,
        "SIGNED_INT": _SIGN + _INT,
        "DECIMAL": _DECIMAL,
        "_EXP": _EXPONENT,
        "FLOAT": _FLOAT,
        "SIGNED_FLOAT": _SIGN + _FLOAT,
        "NUMBER": _NUMBER,
        "SIGNED_NUMBER": _SIGN + _NUMBER,
        "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
        "LCASE_LETTER": "[a-z]",
        "UCASE_LETTER": "[A-Z]",
        "LETTER": "[A-Za-z]",
        "WORD": "[A-Za-z]+",
        "CNAME": "[A-Za-z_][0-9A-Za-z_]*",
        "WS_INLINE": r"[ \t]+",
        "WS": r"[ \t\f\r\n]+",
        "CR": r"\r",
        "LF": r"\n",
        "NEWLINE": r"(?:\r?\n)+",
        "SH_COMMENT": r"#[^\n]*",
        "CPP_COMMENT": r"//[^\n]*",
        "C_COMMENT": r"/\*[^*]*\*+(?:[^*/][^*]*\*+)*/",
        "SQL_COMMENT": r"--[^\n]*",
    }
)
"""Patterns in the syntax of :mod:`state_machines.regex.rust_syntax`, by the names of terminals."""
