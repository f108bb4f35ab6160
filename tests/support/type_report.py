"""Prints how exactly the masks of the catalogue's types agree with their readers.

``python tests/support/type_report.py [--texts 40] [--only NAME]``. The packages are those of
the current checkout: run it from there, or set ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
if not os.environ.get("PYTHONPATH"):
    sys.path.insert(1, str(Path.cwd()))

from type_catalogue import CATALOGUE  # noqa: E402
from type_catalogue.verdicts import Verdict, judge, wrong_facts  # noqa: E402

__all__ = ["main"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=40, help="texts drawn for a type")
    parser.add_argument("--only", default="", help="a part of the names of the types")
    parser.add_argument(
        "--slow", type=float, default=2.0, help="seconds from which a type is named"
    )
    arguments = parser.parse_args()
    gc.freeze()
    # Notes of libraries about parts of types that they do not enforce.
    warnings.simplefilter("ignore")
    begin = time.process_time()
    verdicts: list[Verdict] = []
    for entry in CATALOGUE:
        if arguments.only in entry.key:
            for fact in wrong_facts(entry):
                print(f"WRONG FACT  {entry.key}: {fact}", flush=True)
            verdicts.append(judge(entry, arguments.texts))
            if arguments.only or verdicts[-1].seconds > arguments.slow:
                print(f"{verdicts[-1].seconds:6.2f} s  {entry.key}", flush=True)
    for library in ("pydantic", "msgspec"):
        print_table([verdict for verdict in verdicts if verdict.entry.library == library], library)
    print(f"\n{time.process_time() - begin:.1f} s of processor time")


def print_table(verdicts: list[Verdict], library: str) -> None:
    """Print the verdicts on the types of a library."""
    compiled = [verdict for verdict in verdicts if verdict.error is None]
    refused = [verdict for verdict in verdicts if verdict.error is not None]
    unread = [verdict for verdict in compiled if verdict.unread]
    left_out = [verdict for verdict in compiled if verdict.left_out]
    failed = [verdict for verdict in compiled if verdict.failure is not None]
    print(f"\n== {library}: {len(verdicts)} types")
    print(f"{len(unread):4}  admit a text that the type refuses")
    print(f"{len(left_out):4}  refuse an instance that the type reads")
    print(f"{len(refused):4}  are refused at compilation")
    print(f"{len(failed):4}  have a text without completion")
    for verdict in unread:
        shown = min(verdict.unread, key=len)
        print(f"\nADMITTED  {verdict.entry.name}  ({len(verdict.unread)} of {verdict.drawn} texts)")
        print(f"    text    {shown[:300]}")
        print(f"    reader  {verdict.unread[shown][:300]}")
    for verdict in left_out:
        print(f"\nINSTANCE  {verdict.entry.name}")
        for text in verdict.left_out:
            print(f"    text    {text[:300]}")
    for verdict in refused:
        print(f"\nREFUSED   {verdict.entry.name}\n    error   {(verdict.error or '')[:400]}")
    for verdict in failed:
        print(f"\nFAILED    {verdict.entry.name}\n    error   {(verdict.failure or '')[:400]}")


if __name__ == "__main__":
    main()
