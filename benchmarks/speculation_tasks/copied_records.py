"""Extraction from logs, tables, lists and JSON: the values stand in the text."""

from __future__ import annotations

import json
import random
from typing import Any

from speculation_tasks.base import COUNT, TEXT, Template, object_schema
from speculation_tasks.words import (
    CITIES,
    COMPANIES,
    ITEMS,
    email_of,
    iso_date,
    money,
    person,
    phone,
    street,
)

__all__ = ["TEMPLATES"]


def log_lines(draw: random.Random) -> tuple[str, Any, Any]:
    messages = [
        "connection reset by peer while reading response header",
        "disk usage of /var/lib/data is above the threshold",
        "retrying upload of part 17 after timeout",
        "certificate for api.internal expires in nine days",
        "worker exited with status 137, restarting",
        'invalid value "none" for setting cache.size',
    ]
    records = [
        {
            "time": f"{iso_date(draw)}T{draw.randrange(24):02}:{draw.randrange(60):02}:"
            f"{draw.randrange(60):02}Z",
            "level": draw.choice(["WARN", "ERROR"]),
            "host": f"{draw.choice(['web', 'db', 'queue'])}-{draw.randrange(1, 40):02}",
            "message": message,
        }
        for message in draw.sample(messages, 3)
    ]
    noise = [
        f"{record['time']} INFO  {record['host']} health check passed in {draw.randrange(3, 90)} ms"
        for record in records
    ]
    logged = [
        f"{record['time']} {record['level']:<5} {record['host']} {record['message']}"
        for record in records
    ]
    mixed = "\n".join(line for pair in zip(noise, logged, strict=True) for line in pair)
    prompt = f"List the warnings and errors of this log as JSON.\n\n{mixed}\n"
    record = object_schema(
        {
            "host": TEXT,
            "level": {"enum": ["WARN", "ERROR", "FATAL"]},
            "message": TEXT,
            "time": {"type": "string", "format": "date-time"},
        }
    )
    schema = {"type": "array", "items": record}
    names = list(record["properties"])
    return prompt, schema, [{name: one[name] for name in names} for one in records]


def csv_table(draw: random.Random) -> tuple[str, Any, Any]:
    rows = [
        {
            "id": draw.randrange(1000, 9999),
            "name": person(draw),
            "city": draw.choice(CITIES),
            "joined": iso_date(draw),
            "balance": float(money(draw)),
        }
        for _ in range(7)
    ]
    lines = [f"{r['id']};{r['name']};{r['city']};{r['joined']};{r['balance']}" for r in rows]
    table = "\n".join(["id;name;city;joined;balance", *lines])
    wanted = rows[2:6]
    prompt = (
        f"Convert rows {wanted[0]['id']} to {wanted[-1]['id']} of this table to JSON.\n\n{table}\n"
    )
    row = object_schema(
        {
            "name": TEXT,
            "id": {"type": "integer", "minimum": 1},
            "joined": {"type": "string", "format": "date"},
            "balance": {"type": "number"},
            "city": TEXT,
        }
    )
    names = list(row["properties"])
    value = [{name: one[name] for name in names} for one in wanted]
    return prompt, {"type": "array", "items": row}, value


def markdown_table(draw: random.Random) -> tuple[str, Any, Any]:
    rows = [
        {
            "part": item,
            "supplier": draw.choice(COMPANIES),
            "stock": draw.randrange(0, 900),
            "status": draw.choice(["active", "discontinued", "on hold"]),
        }
        for item in draw.sample(ITEMS, 4)
    ]
    lines = [f"| {r['part']} | {r['supplier']} | {r['stock']} | {r['status']} |" for r in rows]
    table = "\n".join(["| Part | Supplier | Stock | Status |", "|---|---|---|---|", *lines])
    prompt = f"Turn the inventory into JSON.\n\n## Inventory of {draw.choice(CITIES)}\n\n{table}\n"
    part = object_schema(
        {
            "part": TEXT,
            "stock": COUNT,
            "supplier": TEXT,
            "status": {"enum": ["active", "discontinued", "on hold", "unknown"]},
        }
    )
    names = list(part["properties"])
    value = {"inventory": [{name: one[name] for name in names} for one in rows]}
    return prompt, object_schema({"inventory": {"type": "array", "items": part}}), value


def contact_list(draw: random.Random) -> tuple[str, Any, Any]:
    company = draw.choice(COMPANIES)
    people = [
        {
            "name": person(draw),
            "phone": phone(draw),
            "address": f"{street(draw)}, {draw.choice(CITIES)}",
        }
        for _ in range(3)
    ]
    nickname = draw.choice(['the "gatekeeper"', 'called "Red"', 'our "walking archive"'])
    described = "\n\n".join(
        f"{one['name']}{', ' + nickname if number == 1 else ''}\n{one['address']}\nTel. "
        f"{one['phone']}, "
        f"{email_of(one['name'], company)}"
        for number, one in enumerate(people)
    )
    prompt = f"Contacts at {company}, to be imported as JSON:\n\n{described}\n"
    contact = object_schema(
        {
            "name": TEXT,
            "email": TEXT,
            "phone": TEXT,
            "address": object_schema({"street": TEXT, "city": TEXT}),
            "remark": TEXT,
        },
        optional=["remark"],
    )
    value: list[dict[str, Any]] = []
    for number, one in enumerate(people):
        road, _, city = one["address"].partition(", ")
        value.append(
            {
                "name": one["name"],
                "email": email_of(one["name"], company),
                "phone": one["phone"],
                "address": {"street": road, "city": city},
            }
        )
        if number == 1:
            value[-1]["remark"] = nickname
    schema = object_schema({"company": TEXT, "contacts": {"type": "array", "items": contact}})
    return prompt, schema, {"company": company, "contacts": value}


def json_record(draw: random.Random) -> tuple[str, Any, Any]:
    items = [
        {"sku": f"{draw.randrange(10**5, 10**6)}", "title": item, "qty": draw.randrange(1, 9)}
        for item in draw.sample(ITEMS, 3)
    ]
    buyer = person(draw)
    order = {
        "order": f"{draw.randrange(10**7, 10**8)}",
        "placed": iso_date(draw),
        "buyer": {"name": buyer, "phone": phone(draw), "vip": draw.random() < 0.5},
        "ship_to": {"street": street(draw), "city": draw.choice(CITIES)},
        "items": items,
        "note": draw.choice(["Leave it with the neighbours.", 'Ring twice, the bell is "shy".']),
    }
    prompt = (
        "Map this order of the old shop system to the new format.\n\n"
        f"{json.dumps(order, indent=2, ensure_ascii=False)}\n"
    )
    schema = object_schema(
        {
            "id": TEXT,
            "customer": object_schema({"full_name": TEXT, "is_vip": {"type": "boolean"}}),
            "delivery": object_schema({"city": TEXT, "street": TEXT, "instructions": TEXT}),
            "products": {
                "type": "array",
                "items": object_schema({"name": TEXT, "count": COUNT, "article": TEXT}),
            },
        }
    )
    address: Any = order["ship_to"]
    value = {
        "id": order["order"],
        "customer": {"full_name": buyer, "is_vip": order["buyer"]["vip"]},  # type: ignore[index]
        "delivery": {
            "city": address["city"],
            "street": address["street"],
            "instructions": order["note"],
        },
        "products": [
            {"name": one["title"], "count": one["qty"], "article": one["sku"]} for one in items
        ],
    }
    return prompt, schema, value


TEMPLATES: tuple[Template, ...] = (log_lines, csv_table, markdown_table, contact_list, json_record)
