"""Extract from many texts into a CSV file: ``python resume_batch.py people.csv``.

The program can be interrupted and started again. It continues after the last row of the file.
"""

import sys
from collections.abc import Iterator

from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine


class Person(BaseModel):
    """A person in a text."""

    name: str = Field(max_length=40)
    age: int = Field(ge=0, le=130)


def read_records() -> Iterator[dict[str, object]]:
    """Yield the records, always in the same order. They need not fit into memory."""
    people = [("Ada", 36), ("Grace", 85), ("Emmy", 53), ("Alan", 41)]
    for number, (name, age) in enumerate(people * 5, start=1):
        yield {"id": number, "text": f"{name} is {age} years old."}


def main(path: str) -> None:
    """Write a row for each record, and report the failed ones."""
    with (
        InferenceEngine() as engine,
        engine.iter_extract(
            read_records(), Person, prefix="found_", output=path, resume=True, temperature=0
        ) as records,
    ):
        for record in records:
            if record.error is not None:
                print(f"record {record.index}: {record.error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
