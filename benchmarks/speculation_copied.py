"""Documents whose values stand in the prompt: what extraction mostly is."""

from __future__ import annotations

import json
import random
from typing import Any

from speculation_documents import Task, object_schema, tasks_of
from speculation_words import (
    CITIES,
    COMPANIES,
    EVENTS,
    ITEMS,
    SKILLS,
    date_words,
    email_of,
    iso_date,
    money,
    person,
    phone,
    some_date,
    street,
)

__all__ = ["copied_tasks"]

_TEXT = {"type": "string"}
_AMOUNT = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 100_000}


def copied_tasks() -> list[Task]:
    """Return the set."""
    templates = (
        _invoice,
        _email,
        _job_posting,
        _event_notice,
        _product_page,
        _log_lines,
        _csv_table,
        _markdown_table,
        _contact_list,
        _json_record,
    )
    return tasks_of("copied", templates)


def _invoice(draw: random.Random) -> tuple[str, Any, Any]:
    seller, buyer = draw.sample(COMPANIES, 2)
    number = (
        f"{draw.choice(['INV', 'RE', 'F'])}-{draw.randrange(2021, 2027)}-{draw.randrange(10000):04}"
    )
    issued, due = some_date(draw), some_date(draw)
    lines = [
        {"description": item, "quantity": draw.randrange(1, 40), "unit_price": money(draw)}
        for item in draw.sample(ITEMS, 3)
    ]
    place = f"{street(draw)}, {draw.choice(CITIES)}"
    listed = "\n".join(
        f"  {line['quantity']:>3} x {line['description']:<38} {line['unit_price']}"
        for line in lines
    )
    reference = f"PO {draw.randrange(100000, 999999)}"
    iban = (
        f"DE{draw.randrange(10, 99)} {draw.randrange(1000, 9999)} {draw.randrange(1000, 9999)} 00"
    )
    prompt = (
        f"Extract the invoice as JSON.\n\n{seller}\n{place}\n\nInvoice {number}\n"
        f"Date of issue: {issued:%d.%m.%Y}    Payable until: {due:%d.%m.%Y}\nBill to: {buyer}\n"
        f"Your order: {reference}\n\n{listed}\n\n"
        f"Please transfer the amount to {iban}, quoting the invoice number. "
        f"{draw.choice(['Thank you for your business!', 'Goods remain our property until paid.'])}\n"
    )
    schema = object_schema(
        {
            "invoice_number": _TEXT,
            "seller": object_schema({"name": _TEXT, "address": _TEXT}),
            "customer": _TEXT,
            "issue_date": {"type": "string", "format": "date"},
            "due_date": {"type": "string", "format": "date"},
            "lines": {
                "type": "array",
                "items": object_schema(
                    {"description": _TEXT, "quantity": _COUNT, "unit_price": _AMOUNT}
                ),
            },
            "iban": _TEXT,
            "purchase_order": _TEXT,
        },
        optional=["purchase_order"],
    )
    value: dict[str, Any] = {
        "invoice_number": number,
        "seller": {"name": seller, "address": place},
        "customer": buyer,
        "issue_date": issued.isoformat(),
        "due_date": due.isoformat(),
        "lines": [{**line, "unit_price": float(line["unit_price"])} for line in lines],
        "iban": iban,
    }
    if draw.random() < 0.5:
        value["purchase_order"] = reference
    return prompt, schema, value


def _email(draw: random.Random) -> tuple[str, Any, Any]:
    sender, receiver, other = (person(draw) for _ in range(3))
    company = draw.choice(COMPANIES)
    subject = draw.choice(
        [
            f"Visit to {company} on {date_words(some_date(draw))}",
            f"Open questions about the offer of {company}",
            f"Delivery for {company}, second attempt",
        ]
    )
    request, summary = draw.choice(
        [
            (
                'could you send me the "final" drawings before Thursday noon, and the parts list',
                "Asks for documents by Thursday.",
            ),
            (
                "please confirm the new delivery address and tell the driver to use the rear gate",
                "A driver needs other directions.",
            ),
            (
                "we would need two more badges, and a parking space close to the loading bay",
                "Prepares for additional guests.",
            ),
        ]
    )
    deadline = iso_date(draw)
    prompt = (
        f"Summarise this e-mail as JSON, quoting it.\n\nFrom: {sender} <{email_of(sender, company)}>\n"
        f"To: {receiver}\nSubject: {subject}\n\nDear {receiver.split()[0]},\n\n"
        f"thanks for your call. As discussed, {request}. {other} is in charge here until {deadline}, "
        f"after that you reach us at {phone(draw)} as usual.\n\n"
        f"Kind regards\n{sender}\n{company}\n"
    )
    schema = object_schema(
        {
            "subject": _TEXT,
            "from": object_schema({"name": _TEXT, "email": _TEXT}),
            "to": _TEXT,
            "request": _TEXT,
            "contact": _TEXT,
            "deadline": {"type": "string", "format": "date"},
            "summary": _TEXT,
            "is_reply": {"type": "boolean"},
        }
    )
    value = {
        "subject": subject,
        "from": {"name": sender, "email": email_of(sender, company)},
        "to": receiver,
        "request": request,
        "contact": other,
        "deadline": deadline,
        "summary": summary,
        "is_reply": False,
    }
    return prompt, schema, value


def _job_posting(draw: random.Random) -> tuple[str, Any, Any]:
    company, city = draw.choice(COMPANIES), draw.choice(CITIES)
    title = draw.choice(
        ["Maintenance Technician", "Senior Data Engineer", "Pastry Chef", "Warehouse Team Lead"]
    )
    skills = draw.sample(SKILLS, 5)
    low = draw.randrange(38, 60) * 1000
    high = low + draw.randrange(4, 20) * 1000
    contact, start = person(draw), some_date(draw)
    prompt = (
        f"Read the job posting and fill in the form.\n\n{company} is hiring in {city}: {title} (m/f/d)\n\n"
        f"What you bring: {', '.join(skills[:-1])} and {skills[-1]}. We pay {low} to {high} a year, "
        f"depending on experience. The position is full-time and begins on {date_words(start)}. "
        f"Questions? {contact} answers them: {email_of(contact, company)}, {phone(draw)}.\n"
    )
    schema = object_schema(
        {
            "contact": object_schema({"name": _TEXT, "email": _TEXT}),
            "title": _TEXT,
            "employment": {"enum": ["full-time", "part-time", "temporary"]},
            "salary": object_schema({"from": _COUNT, "to": _COUNT}),
            "skills": {"type": "array", "items": _TEXT, "minItems": 1},
            "company": _TEXT,
            "location": object_schema({"city": _TEXT, "is_remote": {"type": "boolean"}}),
            "start": {"type": "string", "format": "date"},
        }
    )
    value = {
        "contact": {"name": contact, "email": email_of(contact, company)},
        "title": title,
        "employment": "full-time",
        "salary": {"from": low, "to": high},
        "skills": skills,
        "company": company,
        "location": {"city": city, "is_remote": False},
        "start": start.isoformat(),
    }
    return prompt, schema, value


def _event_notice(draw: random.Random) -> tuple[str, Any, Any]:
    event = draw.choice(EVENTS)
    place = f"{draw.choice(['Town Hall', 'Harbour Museum', 'St. Anne’s Church', 'Old Mill'])}, {street(draw)}"
    when = some_date(draw)
    hour = f"{draw.randrange(9, 21):02}:{draw.choice(['00', '15', '30'])}"
    speakers = [person(draw) for _ in range(3)]
    price = money(draw, most=60)
    note = draw.choice(
        [
            "Please bring sturdy shoes and something to drink.",
            "The café is open in the interval.",
            "Latecomers are admitted after the first piece only.",
        ]
    )
    prompt = (
        f"What, when, where? Answer as JSON.\n\n*** {event} ***\n{date_words(when)}, doors open at {hour}\n{place}\n\n"
        f"With {speakers[0]}, {speakers[1]} and {speakers[2]}. Tickets cost {price} euros at the door; "
        f"children under twelve come in free. {note}\n"
    )
    schema = object_schema(
        {
            "event": _TEXT,
            "date": {"type": "string", "format": "date"},
            "time": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
            "venue": _TEXT,
            "speakers": {"type": "array", "items": object_schema({"name": _TEXT})},
            "ticket_price": _AMOUNT,
            "free_for_children": {"type": "boolean"},
            "note": _TEXT,
        }
    )
    value = {
        "event": event,
        "date": when.isoformat(),
        "time": hour,
        "venue": place,
        "speakers": [{"name": name} for name in speakers],
        "ticket_price": float(price),
        "free_for_children": True,
        "note": note,
    }
    return prompt, schema, value


def _product_page(draw: random.Random) -> tuple[str, Any, Any]:
    maker = draw.choice(COMPANIES).split()[0]
    model = f"{maker} {draw.choice(['Terra', 'Lumo', 'Quiet', 'Fold'])} {draw.randrange(100, 990)}"
    colours = draw.sample(["moss green", "slate grey", "oyster", "signal red", "midnight blue"], 3)
    features = draw.sample(
        [
            "folds to the size of a shoebox",
            "dishwasher-safe stainless steel bowl",
            "two-year warranty on the motor",
            'comes with the 8" extension arm',
            "runs for six hours on one charge",
            "washable filter, no bags needed",
        ],
        3,
    )
    sku = f"{maker[:2].upper()}{draw.randrange(10**6, 10**7)}"
    bullets = "\n".join(f"- {feature}" for feature in features)
    price, weight = money(draw), f"{draw.randrange(1, 9)}.{draw.randrange(1, 10)}"
    prompt = (
        f"Product data as JSON, please.\n\n# {model}\n\nOnly {price} EUR - in stock, ships within two days. "
        f"Available in {colours[0]}, {colours[1]} and {colours[2]}. Weighs {weight} kg.\n\n{bullets}\n\n"
        f"Article number {sku}\n"
    )
    schema = object_schema(
        {
            "sku": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{7}$"},
            "name": _TEXT,
            "price": object_schema(
                {"amount": _AMOUNT, "currency": {"enum": ["EUR", "USD", "GBP"]}}
            ),
            "features": {"type": "array", "items": _TEXT},
            "colours": {"type": "array", "items": _TEXT},
            "weight_kg": _AMOUNT,
            "in_stock": {"type": "boolean"},
            "category": {"enum": ["kitchen", "garden", "household", "office"]},
            "headline": _TEXT,
        }
    )
    value = {
        "sku": sku,
        "name": model,
        "price": {"amount": float(price), "currency": "EUR"},
        "features": features,
        "colours": colours,
        "weight_kg": float(weight),
        "in_stock": True,
        "category": "household",
        "headline": f"The {model} for people who hate clutter",
    }
    return prompt, schema, value


def _log_lines(draw: random.Random) -> tuple[str, Any, Any]:
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
            "host": _TEXT,
            "level": {"enum": ["WARN", "ERROR", "FATAL"]},
            "message": _TEXT,
            "time": {"type": "string", "format": "date-time"},
        }
    )
    schema = {"type": "array", "items": record}
    names = list(record["properties"])
    return prompt, schema, [{name: one[name] for name in names} for one in records]


def _csv_table(draw: random.Random) -> tuple[str, Any, Any]:
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
            "name": _TEXT,
            "id": {"type": "integer", "minimum": 1},
            "joined": {"type": "string", "format": "date"},
            "balance": {"type": "number"},
            "city": _TEXT,
        }
    )
    names = list(row["properties"])
    value = [{name: one[name] for name in names} for one in wanted]
    return prompt, {"type": "array", "items": row}, value


def _markdown_table(draw: random.Random) -> tuple[str, Any, Any]:
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
            "part": _TEXT,
            "stock": _COUNT,
            "supplier": _TEXT,
            "status": {"enum": ["active", "discontinued", "on hold", "unknown"]},
        }
    )
    names = list(part["properties"])
    value = {"inventory": [{name: one[name] for name in names} for one in rows]}
    return prompt, object_schema({"inventory": {"type": "array", "items": part}}), value


def _contact_list(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"{one['name']}{', ' + nickname if number == 1 else ''}\n{one['address']}\nTel. {one['phone']}, "
        f"{email_of(one['name'], company)}"
        for number, one in enumerate(people)
    )
    prompt = f"Contacts at {company}, to be imported as JSON:\n\n{described}\n"
    contact = object_schema(
        {
            "name": _TEXT,
            "email": _TEXT,
            "phone": _TEXT,
            "address": object_schema({"street": _TEXT, "city": _TEXT}),
            "remark": _TEXT,
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
    schema = object_schema({"company": _TEXT, "contacts": {"type": "array", "items": contact}})
    return prompt, schema, {"company": company, "contacts": value}


def _json_record(draw: random.Random) -> tuple[str, Any, Any]:
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
            "id": _TEXT,
            "customer": object_schema({"full_name": _TEXT, "is_vip": {"type": "boolean"}}),
            "delivery": object_schema({"city": _TEXT, "street": _TEXT, "instructions": _TEXT}),
            "products": {
                "type": "array",
                "items": object_schema({"name": _TEXT, "count": _COUNT, "article": _TEXT}),
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
