"""Email addresses, URLs, IP addresses, UUIDs, and paths of pydantic."""

from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import uuid
from typing import Annotated

import pydantic
from pydantic import BaseModel, Field, UrlConstraints

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]

HERE = json.dumps(os.fspath(pathlib.Path(__file__).resolve()))


class Contact(BaseModel):
    """A model of addresses."""

    email: pydantic.EmailStr
    site: pydantic.HttpUrl | None = None
    host: pydantic.IPvAnyAddress | None = None


ENTRIES = (
    entry(
        "EmailStr",
        pydantic.EmailStr,
        ['"ada@example.org"', '"a.b+c@mail.example.com"'],
        ['"a@localhost"', '"ada"', '"a@b.test"'],
    ),
    entry(
        "EmailStr, length",
        Annotated[pydantic.EmailStr, Field(max_length=20)],
        ['"a@example.org"'],
        ['"ada.lovelace@mail.example.org"'],
    ),
    entry("NameEmail", pydantic.NameEmail, ['"Ada <ada@example.org>"', '"ada@example.org"'], ['"Ada"']),
    entry("list of EmailStr", list[pydantic.EmailStr], ['["a@example.org"]'], ['["a@localhost"]']),
    entry("contact", Contact, ['{"email": "a@example.org", "site": "https://example.org/", "host": "::1"}'], ['{"email": "a"}']),
    entry("AnyUrl", pydantic.AnyUrl, ['"https://example.org/a?b=c#d"', '"mailto:a@example.org"'], ['"a"', '"http:"']),
    entry("AnyHttpUrl", pydantic.AnyHttpUrl, ['"http://localhost:8000/"'], ['"ftp://a"']),
    entry("HttpUrl", pydantic.HttpUrl, ['"https://example.org"', '"http://1.2.3.4:80/a%20b"'], ['"a:b"', '"https://"']),
    entry("FtpUrl", pydantic.FtpUrl, ['"ftp://example.org/file"'], ['"http://a"']),
    entry("FileUrl", pydantic.FileUrl, ['"file:///etc/hosts"'], ['"http://a"']),
    entry("WebsocketUrl", pydantic.WebsocketUrl, ['"wss://example.org/chat"'], ['"http://a"']),
    entry("AnyWebsocketUrl", pydantic.AnyWebsocketUrl, ['"ws://localhost"'], ['"a:b"']),
    entry(
        "HttpUrl, max_length",
        Annotated[pydantic.HttpUrl, Field(max_length=25)],
        ['"https://example.org/"'],
        ['"https://example.org/abcdefgh"'],
    ),
    entry(
        "UrlConstraints",
        Annotated[pydantic.AnyUrl, UrlConstraints(allowed_schemes=["s3"], host_required=True)],
        ['"s3://bucket/key"'],
        ['"http://a/"', '"s3:a"'],
    ),
    entry(
        "UrlConstraints, defaults",
        Annotated[
            pydantic.AnyUrl,
            UrlConstraints(allowed_schemes=["redis"], default_host="localhost", default_port=6379),
        ],
        ['"redis://example.org"'],
        ['"http://a"'],
    ),
    entry("PostgresDsn", pydantic.PostgresDsn, ['"postgresql://user:pw@localhost:5432/db"'], ['"postgres://"', '"mysql://a/b"']),
    entry("CockroachDsn", pydantic.CockroachDsn, ['"cockroachdb://root@localhost:26257/db"'], ['"http://a"']),
    entry("AmqpDsn", pydantic.AmqpDsn, ['"amqp://localhost"'], ['"http://a"']),
    entry("RedisDsn", pydantic.RedisDsn, ['"redis://localhost:6379/0"'], ['"http://a"']),
    entry("MongoDsn", pydantic.MongoDsn, ['"mongodb://localhost:27017"', '"mongodb://a:1,b:2/db"'], ['"a"']),
    entry("KafkaDsn", pydantic.KafkaDsn, ['"kafka://localhost:9092"'], ['"http://a"']),
    entry("NatsDsn", pydantic.NatsDsn, ['"nats://localhost:4222"'], ['"http://a"']),
    entry("MySQLDsn", pydantic.MySQLDsn, ['"mysql://user@localhost:3306/db"'], ['"http://a"']),
    entry("MariaDBDsn", pydantic.MariaDBDsn, ['"mariadb://localhost:3306"'], ['"http://a"']),
    entry("ClickHouseDsn", pydantic.ClickHouseDsn, ['"clickhouse+http://localhost:8123"'], ['"http://a"']),
    entry("SnowflakeDsn", pydantic.SnowflakeDsn, ['"snowflake://user:pw@account"'], ['"snowflake:"']),
    entry("IPv4Address", ipaddress.IPv4Address, ['"127.0.0.1"'], ['"256.0.0.1"', '"01.2.3.4"']),
    entry("IPv6Address", ipaddress.IPv6Address, ['"::1"', '"2001:db8::8a2e:370:7334"'], ['":::"']),
    entry("IPvAnyAddress", pydantic.IPvAnyAddress, ['"10.0.0.1"', '"fe80::1"'], ['"a"']),
    entry("IPv4Network", ipaddress.IPv4Network, ['"10.0.0.0/8"'], ['"10.0.0.1/8"']),
    entry("IPv6Network", ipaddress.IPv6Network, ['"2001:db8::/32"'], ['"::1/8"']),
    entry("IPvAnyNetwork", pydantic.IPvAnyNetwork, ['"192.168.0.0/16"'], ['"a"']),
    entry("IPv4Interface", ipaddress.IPv4Interface, ['"10.0.0.1/8"'], ['"10.0.0.1/33"']),
    entry("IPv6Interface", ipaddress.IPv6Interface, ['"fe80::1/64"'], ['"fe80::1/129"']),
    entry("IPvAnyInterface", pydantic.IPvAnyInterface, ['"10.0.0.1/24"'], ['"a"']),
    entry("UUID", uuid.UUID, ['"12345678-1234-5678-1234-567812345678"'], ['"a"', '"12345678-1234-5678-1234-56781234567"']),
    entry("UUID1", pydantic.UUID1, ['"a6cc5730-2261-11ee-9c43-2eb5a363657c"'], ['"12345678-1234-4678-9234-567812345678"']),
    entry("UUID3", pydantic.UUID3, ['"12345678-1234-3678-9234-567812345678"'], ['"12345678-1234-4678-9234-567812345678"']),
    entry("UUID4", pydantic.UUID4, ['"12345678-1234-4678-9234-567812345678"'], ['"12345678-1234-3678-9234-567812345678"']),
    entry("UUID5", pydantic.UUID5, ['"12345678-1234-5678-9234-567812345678"'], ['"12345678-1234-3678-9234-567812345678"']),
    entry("UUID6", pydantic.UUID6, ['"12345678-1234-6678-9234-567812345678"'], ['"12345678-1234-3678-9234-567812345678"']),
    entry("UUID7", pydantic.UUID7, ['"12345678-1234-7678-9234-567812345678"'], ['"12345678-1234-3678-9234-567812345678"']),
    entry("UUID8", pydantic.UUID8, ['"12345678-1234-8678-9234-567812345678"'], ['"12345678-1234-3678-9234-567812345678"']),
    entry("Path", pathlib.Path, ['"/a/b"', '"c.txt"'], ["1"]),
    entry("PurePath", pathlib.PurePosixPath, ['"a/b"'], ["1"]),
    entry("FilePath", pydantic.FilePath, [HERE], ['"no/such/file"'], "a file that exists"),
    entry("DirectoryPath", pydantic.DirectoryPath, ['"/"', '"."'], ['"no/such/directory"'], "a directory that exists"),
    entry(
        "NewPath",
        pydantic.NewPath,
        ['"/a-new-file"'],
        ['"/"', '"no/such/parent"'],
        "a path that does not exist, in a directory that does",
    ),
    entry("SocketPath", pydantic.SocketPath, [], ['"/"'], "a socket that exists"),
)  # fmt: skip
