"""Measure what hostile requests do to the other clients of a server.

See ``README.md`` beside this file. Code in reading order: ``hostile_inputs`` (the requests),
``hostile_load_server`` (the process), ``hostile_load_clients``, ``hostile_load_runs`` (the
measurement), ``hostile_load_figures`` (targets and table), ``hostile_load_soak`` (memory over many
requests).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arguments import environment, positive
from hostile_inputs import CONTROL, KINDS, HostileKind, kinds_named
from hostile_load_figures import Figures, combined, rows
from hostile_load_runs import Bounds, measure
from hostile_load_server import Launch
from hostile_load_soak import soak, soak_rows
from random_models import Size, save_random_model, size
from records import write_record
from tables import aligned

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    report: dict[str, Any] = {
        "environment": {"checkout": options.checkout.name, **environment()},
        "model": str(options.model or "embedded"),
        "deadline_seconds": options.deadline,
    }

    def keep() -> None:
        if options.json:
            write_record(options.json, report)

    with _model(options.model) as model:
        launch = Launch(options.python, options.checkout.resolve(), model)
        if options.soak:
            report["soak"] = soak(launch, options.soak)
            keep()
            print(aligned(soak_rows(report["soak"]), texts=0))
            return 0
        bounds = Bounds(deadline=options.deadline)
        found: list[Figures] = []
        report["kinds"] = []
        for kind in [CONTROL, *(kind for kind in options.kinds if kind is not CONTROL)]:
            print(kind.name, file=sys.stderr, flush=True)
            repeats = [measure(kind, launch, bounds) for _ in range(options.repeats)]
            found.append(combined(repeats))
            report["kinds"].append(found[-1].as_record(found[0]))
            keep()
    print(aligned(rows(found, options.deadline), texts=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostile_load.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kinds",
        type=_kinds,
        default=list(KINDS),
        metavar="TEXTS",
        help="only kinds with one of these texts in their names, separated by commas",
    )
    parser.add_argument("--list", action=_List, help="print the names of the kinds, and end")
    parser.add_argument("--repeats", type=positive, default=1, help="of each kind (%(default)s)")
    parser.add_argument(
        "--deadline", type=float, default=20.0, metavar="S", help="of each phase (%(default)g)"
    )
    parser.add_argument(
        "--soak",
        type=positive,
        metavar="N",
        help="measure the server's memory over N requests of mixed constraints instead",
    )
    parser.add_argument(
        "--model",
        metavar="M",
        help="a directory, or LAYERSxWIDTH for a random model (default: the embedded one)",
    )
    parser.add_argument("--python", default=sys.executable, help="the server's (this one)")
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(__file__).parents[1],
        metavar="DIR",
        help="where the server is imported from (this checkout)",
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser


def _kinds(text: str) -> list[HostileKind]:
    try:
        return kinds_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _List(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n".join(kind.name for kind in KINDS))
        parser.exit()


@contextlib.contextmanager
def _model(name: str | None) -> Iterator[str | None]:
    """Yield the model's directory; within, a random one exists."""
    shape = _shape(name)
    if shape is None:
        yield name
        return
    with tempfile.TemporaryDirectory() as directory:
        save_random_model(shape, Path(directory))
        yield directory


def _shape(name: str | None) -> Size | None:
    if name is None or Path(name).exists():
        return None
    with contextlib.suppress(argparse.ArgumentTypeError):
        return size(name)
    return None


if __name__ == "__main__":
    sys.exit(main())
