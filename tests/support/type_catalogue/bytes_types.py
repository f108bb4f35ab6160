"""Bytes, encodings, secrets, and other texts with a meaning of pydantic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
from pydantic import BaseModel, ConfigDict, Field, Json

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class InBase64(BaseModel):
    """Bytes in base64."""

    model_config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    a: bytes
    b: Annotated[bytes, Field(min_length=2, max_length=4)] = b"ab"


class InHex(BaseModel):
    """Bytes in hexadecimal digits."""

    model_config = ConfigDict(val_json_bytes="hex", ser_json_bytes="hex")
    a: bytes
    b: Annotated[bytes, Field(max_length=2)] = b""


class InUtf8(BaseModel):
    """Bytes in UTF-8."""

    model_config = ConfigDict(val_json_bytes="utf8")
    a: Annotated[bytes, Field(min_length=1, max_length=3)]


class ListsInHex(BaseModel):
    """Bytes in hexadecimal digits, in lists and dicts."""

    model_config = ConfigDict(val_json_bytes="hex")
    a: list[Annotated[bytes, Field(min_length=1)]]
    b: dict[str, bytes | None] = {}


class RotatingEncoder(pydantic.EncoderProtocol):
    """An encoder of the user: every text is decoded."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        return data[::-1]

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value[::-1]

    @classmethod
    def get_json_format(cls) -> str:
        return "rotated"


class Configured(BaseModel):
    """A model of JSON in strings."""

    numbers: Json[list[int]]
    options: Json[dict[str, bool]] = Field(default="{}", validate_default=True)


class WithCallable(BaseModel):
    """A model with a callable that has a default."""

    a: int
    key: Callable[[int], int] = abs


class Account(BaseModel):
    """A model of secrets."""

    password: Annotated[pydantic.SecretStr, Field(min_length=2, max_length=8)]
    token: pydantic.SecretBytes = pydantic.SecretBytes(b"")


ENTRIES = (
    entry("bytes", bytes, ['"a"', '"é"', '""'], ["1"]),
    entry("bytes, max_length", Annotated[bytes, Field(max_length=3)], ['"abc"', '"é"'], ['"éé"']),
    entry("bytes, both lengths", Annotated[bytes, Field(min_length=2, max_length=4)], ['"é"', '"abcd"'], ['"a"', '"€€"']),
    entry("conbytes", pydantic.conbytes(min_length=1, max_length=2), ['"é"'], ['"€"']),
    entry("bytes, strict", pydantic.StrictBytes, ['"a"'], ["1"]),
    entry("model in base64", InBase64, ['{"a": "YWI=", "b": "YWI="}'], ['{"a": "a", "b": "YWI="}', '{"a": "", "b": "YQ=="}']),
    entry("model in hex", InHex, ['{"a": "00ff", "b": "aa"}'], ['{"a": "0", "b": ""}', '{"a": "gg", "b": ""}']),
    entry("model in UTF-8", InUtf8, ['{"a": "é"}'], ['{"a": "éé"}']),
    entry("lists in hex", ListsInHex, ['{"a": ["ff"], "b": {"x": null}}'], ['{"a": ["f"]}']),
    entry("Base64Bytes", pydantic.Base64Bytes, ['"YWI="', '""'], ['"a"']),
    entry("Base64Str", pydantic.Base64Str, ['"YWI="'], ['"gICA"']),
    entry("Base64UrlBytes", pydantic.Base64UrlBytes, ['"YWI="'], ['"a"']),
    entry("Base64UrlStr", pydantic.Base64UrlStr, ['"YWI="'], ['"gICA"']),
    entry("Base64Bytes, length", Annotated[pydantic.Base64Bytes, Field(max_length=4)], ['"YWI="'], ['"YWJjZGVm"']),
    entry("bytes of an encoder", Annotated[bytes, pydantic.EncodedBytes(encoder=RotatingEncoder)], ['"ab"'], ["1"]),
    entry("str of an encoder", Annotated[str, pydantic.EncodedStr(encoder=RotatingEncoder)], ['"ab"'], ["1"], "code"),
    entry("SecretStr", pydantic.SecretStr, ['"a"'], ["1"]),
    entry("SecretStr, length", Annotated[pydantic.SecretStr, Field(min_length=8)], ['"abcdefgh"'], ['"a"']),
    entry("SecretBytes", pydantic.SecretBytes, ['"a"'], ["1"]),
    entry("SecretBytes, length", Annotated[pydantic.SecretBytes, Field(max_length=2)], ['"é"'], ['"€"']),
    entry("Secret of int", pydantic.Secret[int], ["1"], ['"a"']),
    entry("Secret of a bounded int", pydantic.Secret[Annotated[int, Field(ge=0, le=9)]], ["9"], ["10"]),
    entry("account", Account, ['{"password": "abc", "token": "x"}'], ['{"password": "a", "token": ""}']),
    entry("Json", Json, ['"[1]"', '"null"'], ['"a"', "1"]),
    entry("Json of Any", Json[Any], ['"{\\"a\\": 1}"'], ['"{"']),
    entry("Json of int", Json[int], ['"12"'], ['"null"']),
    entry("Json of list", Json[list[int]], ['"[1, 2]"'], ['"{}"']),
    entry("Json of str", Json[str], ['"\\"a\\""'], ['"a"']),
    entry("model of JSON in strings", Configured, ['{"numbers": "[1]", "options": "{}"}'], ['{"numbers": "1"}']),
    entry("Pattern", re.Pattern, ['"a+"'], ['"("', '"[^]"']),
    entry("Pattern of str", re.Pattern[str], ['"^[a-z]+$"'], ['"*"']),
    entry("ImportString", pydantic.ImportString, ['"math.pi"'], ['"nothing.here"']),
    entry("callable with a default", WithCallable, ['{"a": 1}'], ['{"a": "x"}']),
)  # fmt: skip
