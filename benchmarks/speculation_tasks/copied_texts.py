"""Extraction from letters and notices: the values stand in the text."""

from __future__ import annotations

import random
from typing import Any

from speculation_tasks.base import AMOUNT, COUNT, TEXT, Template, object_schema
from speculation_tasks.words import (
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

__all__ = ["TEMPLATES"]


def invoice(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"{draw.choice(['Thank you for your business!', 'Goods remain ours until paid.'])}\n"
    )
    schema = object_schema(
        {
            "invoice_number": TEXT,
            "seller": object_schema({"name": TEXT, "address": TEXT}),
            "customer": TEXT,
            "issue_date": {"type": "string", "format": "date"},
            "due_date": {"type": "string", "format": "date"},
            "lines": {
                "type": "array",
                "items": object_schema(
                    {"description": TEXT, "quantity": COUNT, "unit_price": AMOUNT}
                ),
            },
            "iban": TEXT,
            "purchase_order": TEXT,
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


def email(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"Summarise this e-mail as JSON, quoting it.\n\nFrom: {sender} "
        f"<{email_of(sender, company)}>\n"
        f"To: {receiver}\nSubject: {subject}\n\nDear {receiver.split()[0]},\n\n"
        f"thanks for your call. As discussed, {request}. {other} is in charge here until "
        f"{deadline}, "
        f"after that you reach us at {phone(draw)} as usual.\n\n"
        f"Kind regards\n{sender}\n{company}\n"
    )
    schema = object_schema(
        {
            "subject": TEXT,
            "from": object_schema({"name": TEXT, "email": TEXT}),
            "to": TEXT,
            "request": TEXT,
            "contact": TEXT,
            "deadline": {"type": "string", "format": "date"},
            "summary": TEXT,
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


def job_posting(draw: random.Random) -> tuple[str, Any, Any]:
    company, city = draw.choice(COMPANIES), draw.choice(CITIES)
    title = draw.choice(
        ["Maintenance Technician", "Senior Data Engineer", "Pastry Chef", "Warehouse Team Lead"]
    )
    skills = draw.sample(SKILLS, 5)
    low = draw.randrange(38, 60) * 1000
    high = low + draw.randrange(4, 20) * 1000
    contact, start = person(draw), some_date(draw)
    prompt = (
        f"Read the job posting and fill in the form.\n\n{company} is hiring in {city}: {title} "
        "(m/f/d)\n\n"
        f"What you bring: {', '.join(skills[:-1])} and {skills[-1]}. We pay {low} to {high} a "
        "year, "
        f"depending on experience. The position is full-time and begins on {date_words(start)}. "
        f"Questions? {contact} answers them: {email_of(contact, company)}, {phone(draw)}.\n"
    )
    schema = object_schema(
        {
            "contact": object_schema({"name": TEXT, "email": TEXT}),
            "title": TEXT,
            "employment": {"enum": ["full-time", "part-time", "temporary"]},
            "salary": object_schema({"from": COUNT, "to": COUNT}),
            "skills": {"type": "array", "items": TEXT, "minItems": 1},
            "company": TEXT,
            "location": object_schema({"city": TEXT, "is_remote": {"type": "boolean"}}),
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


def event_notice(draw: random.Random) -> tuple[str, Any, Any]:
    event = draw.choice(EVENTS)
    house = draw.choice(["Town Hall", "Harbour Museum", "St. Anne’s Church", "Old Mill"])
    place = f"{house}, {street(draw)}"
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
        f"What, when, where? Answer as JSON.\n\n*** {event} ***\n{date_words(when)}, doors open "
        f"at {hour}\n{place}\n\n"
        f"With {speakers[0]}, {speakers[1]} and {speakers[2]}. Tickets cost {price} euros at the "
        "door; "
        f"children under twelve come in free. {note}\n"
    )
    schema = object_schema(
        {
            "event": TEXT,
            "date": {"type": "string", "format": "date"},
            "time": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
            "venue": TEXT,
            "speakers": {"type": "array", "items": object_schema({"name": TEXT})},
            "ticket_price": AMOUNT,
            "free_for_children": {"type": "boolean"},
            "note": TEXT,
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


def product_page(draw: random.Random) -> tuple[str, Any, Any]:
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
        f"Product data as JSON, please.\n\n# {model}\n\nOnly {price} EUR - in stock, ships "
        "within two days. "
        f"Available in {colours[0]}, {colours[1]} and {colours[2]}. Weighs {weight} kg.\n\n"
        f"{bullets}\n\n"
        f"Article number {sku}\n"
    )
    schema = object_schema(
        {
            "sku": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{7}$"},
            "name": TEXT,
            "price": object_schema({"amount": AMOUNT, "currency": {"enum": ["EUR", "USD", "GBP"]}}),
            "features": {"type": "array", "items": TEXT},
            "colours": {"type": "array", "items": TEXT},
            "weight_kg": AMOUNT,
            "in_stock": {"type": "boolean"},
            "category": {"enum": ["kitchen", "garden", "household", "office"]},
            "headline": TEXT,
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


TEMPLATES: tuple[Template, ...] = (invoice, email, job_posting, event_notice, product_page)
