"""Whether outlines compiles a schema within bounds. Run as a program, in a process of its own.

Its automata have as many states as a schema has ways, which can take all of a machine's memory;
and nothing but the end of the process stops it. Standard input is JSON: ``schema`` is JSON text,
``end_id`` a token, ``tokens`` the ids by text, ``bytes`` the memory that may be taken.
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
