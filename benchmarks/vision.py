"""Measure questions about images, beside mlx-vlm's own loop.

See ``README.md`` beside this file. Code in reading order: ``random_vision_models`` (the model),
``vision_stacks`` (this engine and mlx-vlm), this file (the figures).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import mlx.core as mx
from alternation import ratio_of, rotated, settle
from arguments import environment, positive
from random_models import Size, size
from random_vision_models import IMAGE_TOKEN_PIXELS, picture, save_random_vision_model
from records import write_record
from vision_stacks import PEERS, Answered, MlxVlm, Ours, VisionStack, processor_seconds

from proxy_engine.runtime.blas import has_fast_blas
from state_machines import RegexStateMachine

__all__ = ["FIGURES", "main"]

FIGURES = ("questions", "masks", "batch", "imports")
_FIRST, _SECOND = "What is the total of the receipt?", "Who wrote it, and in which year?"
_BATCH = 4
_FORMATS: dict[str, Any] = {
    # A token has one digit, so that all answers have states of the same cost.
    "pattern": RegexStateMachine("[0-9]{24}"),
    "schema": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[0-9]{12}$"},
            "total": {"type": "integer", "minimum": 100_000, "maximum": 999_999},
        },
        "required": ["code", "total"],
        "additionalProperties": False,
    },
}
_IMPORT = "import proxy_engine, proxy_engine.engine.inference_engine, proxy_engine.server.app"
_BLOCK = "import sys; sys.modules.update(mlx_vlm=None, mlx_audio=None)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    report: dict[str, Any] = {
        "environment": {
            **environment(),
            "device": str(mx.default_device()),
            "fast_blas": has_fast_blas(),
            **{name: version(name) for name in ("mlx", "mlx-lm", "mlx-vlm")},
        },
        "text_model": str(options.text_model),
        "vision_tower": str(options.vision_tower),
        "pixels": options.pixels,
        "image_tokens": options.pixels**2 // IMAGE_TOKEN_PIXELS,
        "figures": [],
    }
    with tempfile.TemporaryDirectory() as directory:
        run = _Run(Path(directory), options)
        for name in options.figures:
            print(name, file=sys.stderr, flush=True)
            for figure in run.measures[name]():
                report["figures"].append(figure)
                print(_line(figure), flush=True)
                if options.json:
                    write_record(options.json, report)
        run.close()
    return 0


class _Run:
    """The stacks, with the same weights, and images that no stack has read."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        model = directory / "model"
        model.mkdir()
        save_random_vision_model(options.text_model, options.vision_tower, model)
        self._directory = directory
        self._options = options
        self._seeds = count()
        self._ours = Ours(model)
        self._stacks: dict[str, VisionStack] = {"ours": self._ours}
        for name in options.peers:
            self._stacks[name] = MlxVlm(model, PEERS[name])
        self.measures: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "questions": self.questions,
            "masks": self.masks,
            "batch": self.batch,
            "imports": lambda: imports(options.repeats),
        }

    def close(self) -> None:
        """Release the model."""
        self._ours.close()

    def questions(self) -> Iterator[dict[str, Any]]:
        """Time to first token of two questions about one image, and time of each further token."""
        runs: dict[str, list[tuple[Answered, Answered]]] = {name: [] for name in self._stacks}
        # The first repeat warms the processor's and the allocator's caches.
        for turn in range(self._options.repeats + 1):
            image = self._images(1)
            for name in rotated(self._stacks, turn):
                stack = self._stacks[name]
                stack.forget()
                settle()
                first = stack.answer(_FIRST, image, self._options.tokens)
                runs[name].append((first, stack.answer(_SECOND, image, self._options.tokens)))
        pairs = {name: pairs[1:] for name, pairs in runs.items()}
        for name, measured in pairs.items():
            yield from _first_tokens(name, measured)
        for name in self._stacks:
            for which, question in enumerate(("first", "second")):
                if name != "ours":
                    of_pairs = [[pair[which] for pair in pairs[key]] for key in ("ours", name)]
                    yield from _beside(name, question, *of_pairs)

    def masks(self) -> Iterator[dict[str, Any]]:
        """Mask time per token of the same formats, with an image over without."""
        image = self._images(1)
        for name, response_format in _FORMATS.items():
            with_image: list[float] = []
            without: list[float] = []
            for _ in range(4 * self._options.repeats + 1):
                for times, images in ((with_image, image), (without, [])):
                    settle()
                    answered = self._ours.answer(_FIRST, images, 128, response_format)
                    times.append(answered.mask_seconds)
            ratio = ratio_of(with_image[1:], without[1:])
            yield {"figure": f"masks, {name}", "against": "no image", **ratio.as_record()}

    def batch(self) -> Iterator[dict[str, Any]]:
        """Time of questions about different images together over one after another."""
        engine, tokens = self._ours.engine, self._options.tokens
        together: list[float] = []
        alone: list[float] = []
        processor: dict[str, list[float]] = {"together": [], "alone": []}
        for turn in range(self._options.repeats + 1):
            for way in ("together", "alone") if turn % 2 else ("alone", "together"):
                prompts = [self._ours.prompt(_FIRST, [image]) for image in self._images(_BATCH)]
                settle()
                started, of_processor = time.perf_counter(), processor_seconds()
                for group in [prompts] if way == "together" else [[prompt] for prompt in prompts]:
                    engine.generate_batch(
                        group, max_tokens=tokens, temperature=0.0, speculation="off"
                    )
                (together if way == "together" else alone).append(time.perf_counter() - started)
                processor[way].append(processor_seconds() - of_processor)
        name = f"batch of {_BATCH} images"
        yield {
            "figure": name,
            "against": "one by one",
            **ratio_of(together[1:], alone[1:]).as_record(),
        }
        ratio = ratio_of(processor["together"][1:], processor["alone"][1:])
        yield {"figure": f"{name}, processor", "against": "one by one", **ratio.as_record()}

    def _images(self, number: int) -> list[Path]:
        paths = []
        for _ in range(number):
            seed = next(self._seeds)
            paths.append(self._directory / f"{seed}.png")
            picture(seed, self._options.pixels).save(paths[-1])
        return paths


def imports(repeats: int) -> Iterator[dict[str, Any]]:
    """Processor time of importing the package with the extras importable over without."""
    importable: list[float] = []
    blocked: list[float] = []
    for _ in range(2 * repeats + 1):
        importable.append(_import_seconds("pass"))
        blocked.append(_import_seconds(_BLOCK))
    ratio = ratio_of(importable[1:], blocked[1:])
    yield {"figure": "imports", "against": "without the extras", **ratio.as_record()}


def _import_seconds(before: str) -> float:
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", f"{before}\n{_IMPORT}"]
    subprocess.run(command, check=True, env=os.environ)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime - started.ru_utime + ended.ru_stime - started.ru_stime


def _first_tokens(
    stack: str, pairs: Sequence[tuple[Answered, Answered]]
) -> Iterator[dict[str, Any]]:
    for kind, of in (("first token", "first_seconds"), ("processor", "processor_seconds")):
        seconds = [[getattr(pair[which], of) for pair in pairs] for which in (0, 1)]
        yield {
            "figure": f"second question, {kind}",
            "stack": stack,
            "against": "first question",
            **ratio_of(seconds[1], seconds[0]).as_record(),
        }


def _beside(
    peer: str, question: str, ours: Sequence[Answered], theirs: Sequence[Answered]
) -> Iterator[dict[str, Any]]:
    values = {
        "first token": "first_seconds",
        "first token, processor": "processor_seconds",
        "further tokens": "token_seconds",
        "further tokens, processor": "token_processor_seconds",
    }
    for kind, of in values.items():
        if kind.startswith("further") and min(a.tokens for a in (*ours, *theirs)) < 2:
            continue
        seconds = [[getattr(answered, of) for answered in stack] for stack in (ours, theirs)]
        yield {
            "figure": f"{question} question, {kind}",
            "stack": "ours",
            "against": peer,
            **ratio_of(*seconds).as_record(),
            "tokens": [ours[0].tokens, theirs[0].tokens],
        }


def _line(figure: dict[str, Any]) -> str:
    of = f"{figure['figure']}: {figure.get('stack', 'ours')} beside {figure['against']}"
    spread = f"{figure['low']:.3f} to {figure['high']:.3f}"
    times = f"{figure['ours'] * 1e3:.3f} ms, {figure['theirs'] * 1e3:.3f} ms"
    return f"{of}: {figure['value']:.3f} ({spread}; {times}; {figure['repeats']} repeats)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vision.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--text-model",
        type=size,
        default=Size(8, 512),
        metavar="LAYERSxWIDTH",
        help="of the language model; the width is a multiple of 64 (%(default)s)",
    )
    parser.add_argument(
        "--vision-tower",
        type=size,
        default=Size(12, 512),
        metavar="LAYERSxWIDTH",
        help="as above (%(default)s)",
    )
    parser.add_argument(
        "--pixels", type=positive, default=448, help="width and height of images (%(default)s)"
    )
    parser.add_argument(
        "--figures", nargs="+", choices=FIGURES, default=FIGURES, help="(all)", metavar="FIGURE"
    )
    parser.add_argument(
        "--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="(all)", metavar="PEER"
    )
    parser.add_argument("--tokens", type=positive, default=32, help="of answers (%(default)s)")
    parser.add_argument("--repeats", type=positive, default=5, help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="file of figures to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
