"""Check in a separate process whether outlines compiles a schema within limits.

Its automata can exhaust a machine's memory, and only the end of the process stops a compilation.
Standard input is JSON: ``schema`` is JSON text, ``end_id`` a token, ``tokens`` the ids by text,
``bytes`` the memory that may be taken.
"""

from __future__ import annotations

import json
import resource
import sys

from outlines_core import Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema


def main() -> int:
    """Return the exit status: 0 if it compiles."""
    asked = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (asked["bytes"], asked["bytes"]))
    vocabulary = Vocabulary(asked["end_id"], asked["tokens"])
    Index(build_regex_from_schema(asked["schema"], None), vocabulary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
