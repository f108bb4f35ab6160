"""Build the distributions, check their contents, and try each in clean environments.

``make release-check`` runs this program. The sdist is built from the checkout, the wheel of this
machine from the sdist. ``--dist`` checks distributions that are built already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
PERSON = ROOT / "examples" / "person.json"
TEXT = ROOT / "examples" / "person.txt"
PACKAGES = "proxy_engine,samplers,state_machines"
# The compiled loop uses no libc, so its tag names an old one.
GLIBC = (2, 17)
CROSS_COMPILER = "aarch64-linux-gnu-gcc"
SCRIPTS = Path(sysconfig.get_path("scripts"))


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command outside of the checkout, and return its standard output."""
    print("+", *command, flush=True)
    environment = {**os.environ, **(env or {})}
    # The checkout's modules must not be imported instead of the installed ones.
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            [str(part) for part in command],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout


def build(dist: Path) -> None:
    """Build the sdist, the wheel of this machine, and those that other machines install."""
    shutil.rmtree(dist, ignore_errors=True)
    builder = (sys.executable, "-m", "build", "--outdir", dist)
    run(*builder, ROOT)
    (sdist,) = dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as directory:
        shutil.unpack_archive(sdist, directory)
        (source,) = Path(directory).iterdir()
        run(*builder, "--wheel", source, env={"PROXY_ENGINE_WHEEL": "any"})
        if platform.machine() == "x86_64" and shutil.which(CROSS_COMPILER):
            tag = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_aarch64"
            settings = {"PROXY_ENGINE_WHEEL": tag, "CC": CROSS_COMPILER}
            run(*builder, "--wheel", source, env=settings)


def check_contents(files: list[Path]) -> None:
    """Check metadata, packages and platform tags."""
    run(SCRIPTS / "twine", "check", "--strict", *files)
    wheels = [path for path in files if path.suffix == ".whl"]
    run(SCRIPTS / "check-wheel-contents", "--toplevel", PACKAGES, *wheels)
    for wheel in wheels:
        if "linux" in wheel.name and sys.platform == "linux":
            check_linux_tag(wheel)


def check_linux_tag(wheel: Path) -> None:
    """Check that the compiled loop runs with the glibc that the tag names."""
    facts = json.loads(run(SCRIPTS / "auditwheel", "show", "--json", wheel))
    if facts["external_libs"] or facts["versioned_symbols"]:
        raise SystemExit(f"{wheel.name} needs libraries: {facts}")
    tag = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", facts["overall_tag"])
    if tag is None or (int(tag[1]), int(tag[2])) > GLIBC or not wheel.stem.endswith(f"_{tag[3]}"):
        raise SystemExit(f"{wheel.name} is a wheel for {facts['overall_tag']}")


@dataclass(frozen=True, slots=True)
class Trial:
    """The installation of a file in a clean environment.

    Attributes:
        file: A wheel or an sdist.
        python: The interpreter.
        compiled: Whether the compiled loop is expected.
        extra: The backend; empty for none.
        reads_readme: Whether the command lines of the README are run, which takes a download.
    """

    file: Path
    python: str
    compiled: bool
    extra: str = "cpu"
    reads_readme: bool = False

    def run(self) -> None:
        """Install with pip, compute a mask, and extract JSON with the embedded model."""
        with tempfile.TemporaryDirectory() as directory:
            environment = Path(directory, "environment")
            run(self.python, "-m", "venv", environment)
            began = time.monotonic()
            requirement = f"{self.file}[{self.extra}]" if self.extra else self.file
            run(environment / "bin" / "pip", "install", "--quiet", requirement)
            seconds = time.monotonic() - began
            size = sum(path.lstat().st_size for path in environment.rglob("*"))
            print(f"  installed in {seconds:.0f} s, {size / 2**20:.0f} MiB", flush=True)
            without = not self.extra and sys.platform == "linux"
            flags = ["--compiled"] * self.compiled + ["--without-backend"] * without
            # Without this name of a compiler, the loop would be compiled on first use.
            compiler = {} if self.compiled else {"CC": "no-compiler"}
            run(environment / "bin" / "python", "-I", SMOKE, *flags, env=compiler)
            if not without:
                check_command(environment / "bin" / "proxy-engine")
            if self.reads_readme:
                check_readme(environment / "bin" / "proxy-engine")


def check_command(command: str | Path) -> None:
    """Run the console script on the embedded model."""
    result = json.loads(run(command, "extract", "--quiet", "--schema", PERSON, TEXT))
    if set(result) != {"name", "age", "city"}:
        raise SystemExit(f"unexpected result: {result}")


def check_readme(command: Path) -> None:
    """Run the command lines of the README as a new user, whose home directory is empty."""
    lines = re.findall(r"^\$ proxy-engine (.*)$", (ROOT / "README.md").read_text("utf-8"), re.M)
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory, "work")
        shutil.copytree(ROOT / "examples", work / "examples")
        # The commands of `run` begin in a directory of their own.
        for line in lines:
            script = f"cd {work} && {command} {line}"
            run("sh", "-c", script, env={"HOME": directory, "XDG_CACHE_HOME": ""})


def check_uv(wheel: Path) -> None:
    """Run the command line from the wheel with ``uv tool run`` and ``uv tool install``."""
    uv, requirement = SCRIPTS / "uv", f"{wheel}[cpu]"
    run(uv, "tool", "run", "--isolated", "--from", requirement, "proxy-engine", "--help")
    with tempfile.TemporaryDirectory() as directory:
        binaries = Path(directory, "bin")
        folders = {"UV_TOOL_DIR": f"{directory}/tools", "UV_TOOL_BIN_DIR": str(binaries)}
        run(uv, "tool", "install", requirement, env=folders)
        check_command(binaries / "proxy-engine")


def trials(files: list[Path], pythons: list[str]) -> Iterator[Trial]:
    """The wheel of this machine with every Python; the other files with the first one."""
    machine = "arm64" if sys.platform == "darwin" else platform.machine()
    for file in files:
        if file.name.endswith(f"{machine}.whl"):
            for python in pythons:
                yield Trial(file, python, compiled=True, reads_readme=python == pythons[0])
            yield Trial(file, pythons[0], compiled=True, extra="")
        elif file.name.endswith("-any.whl"):
            yield Trial(file, pythons[0], compiled=False)
        elif file.name.endswith(".tar.gz"):
            yield Trial(file, pythons[0], compiled=shutil.which("cc") is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, help="a directory of built distributions")
    parser.add_argument("--pythons", nargs="+", default=["python3.12", "python3.13", "python3.11"])
    arguments = parser.parse_args()
    pythons = [path for path in map(shutil.which, arguments.pythons) if path] or [sys.executable]
    dist = (arguments.dist or ROOT / "dist").resolve()
    if arguments.dist is None:
        build(dist)
    files = sorted(path for path in dist.iterdir() if path.name.endswith((".whl", ".tar.gz")))
    check_contents(files)
    planned = list(trials(files, pythons))
    for trial in planned:
        trial.run()
    check_uv(next(trial.file for trial in planned if trial.file.suffix == ".whl"))
    print(f"checked {', '.join(file.name for file in files)}")


if __name__ == "__main__":
    main()
