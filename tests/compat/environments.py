"""The clients, and an environment for each: a virtual environment, or a folder of npm packages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy_engine.models.embedded import embedded_model
from state_machines.compiled_library import cache_directory

__all__ = [
    *("CLIENTS", "Agent", "Client", "GoClient", "InProcessClient", "NodeClient"),
    "PythonClient",
]

ROOT = Path(__file__).parents[2]
# The newest versions of some packages need it.
_NODE = "node@22"
SCRIPTS = Path(__file__).with_name("clients")


@dataclass(frozen=True)
class Client(ABC):
    """A client of the server and the script that checks it.

    Attributes:
        name: The name in the table.
        script: The file name in ``clients/``.
        packages: The packages to install; the first one has the client's version.
    """

    name: str
    script: str
    packages: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Where its packages are installed."""
        return cache_directory() / "compat" / Path(self.script).stem

    @abstractmethod
    def missing(self) -> str:
        """Return why the client cannot run on this computer; empty if it can."""

    @abstractmethod
    def install(self) -> None:
        """Install the packages, unless they are installed.

        Raises:
            subprocess.CalledProcessError: The installation failed.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the installed version."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line that runs the script."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the script's process."""
        # The project's packages and the preloaded library are the server's alone.
        return {
            name: v for name, v in variables.items() if name not in ("PYTHONPATH", "LD_PRELOAD")
        }


class PythonClient(Client):
    """A Python package in a virtual environment."""

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.directory / "bin" / "python"

    def missing(self) -> str:
        return ""

    def install(self) -> None:
        if self.version():
            return
        base = sys.base_prefix
        executable = shutil.which("python3", path=f"{base}/bin") or sys.executable
        subprocess.run([executable, "-m", "venv", self.directory], check=True)
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.packages], check=True)

    def version(self) -> str:
        if not self.python.exists():
            return ""
        name = self.packages[0].partition("[")[0]
        code = f"from importlib.metadata import version; print(version({name!r}))"
        run = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=False)
        return run.stdout.strip()

    def command(self) -> list[str]:
        return [str(self.python), str(SCRIPTS / self.script)]


class InProcessClient(PythonClient):
    """Python packages that run on an engine in their own process, beside this environment's."""

    def install(self) -> None:
        super().install()
        (packages,) = self.directory.glob("lib/python*/site-packages")
        others = [path for path in sys.path if path.endswith("site-packages")]
        # Behind its own packages.
        (packages / "z_project.pth").write_text("\n".join([str(ROOT), *others]), encoding="utf-8")


class NodeClient(Client):
    """An npm package in a separate folder, with its own Node."""

    def missing(self) -> str:
        return "" if shutil.which("npm") else "npm is not installed"

    def install(self) -> None:
        if not self.version():
            self.directory.mkdir(parents=True, exist_ok=True)
            npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", "."]
            newest = [f"{package}@latest" for package in self.packages]
            subprocess.run([*npm, _NODE, *newest], cwd=self.directory, check=True)
        # Node resolves packages from the script's own folder.
        for script in SCRIPTS.glob("*.mjs"):
            shutil.copy(script, self.directory)

    def version(self) -> str:
        package = self.directory / "node_modules" / self.packages[0] / "package.json"
        if not package.exists():
            return ""
        version: str = json.loads(package.read_text(encoding="utf-8"))["version"]
        return version

    def command(self) -> list[str]:
        node = self.directory / "node_modules" / "node" / "bin" / "node"
        return [str(node), str(self.directory / self.script)]


@dataclass(frozen=True)
class Agent(Client):
    """A coding agent, which a script runs once with a scripted model. Runs only if it is named.

    Attributes:
        program: The name of its program.
    """

    program: str = ""

    def command(self) -> list[str]:
        return [sys.executable, str(SCRIPTS / self.script), self.program, str(self.executable)]

    @property
    @abstractmethod
    def executable(self) -> Path:
        """The program."""


class NodeAgent(Agent, NodeClient):
    """A coding agent from npm."""

    @property
    def directory(self) -> Path:
        return cache_directory() / "compat" / f"agent-{self.program}"

    @property
    def executable(self) -> Path:
        return self.directory / "node_modules" / ".bin" / self.program

    def command(self) -> list[str]:
        return Agent.command(self)


class PythonAgent(Agent, PythonClient):
    """A coding agent from PyPI."""

    @property
    def directory(self) -> Path:
        return cache_directory() / "compat" / f"agent-{self.program}"

    @property
    def executable(self) -> Path:
        return self.directory / "bin" / self.program

    def command(self) -> list[str]:
        return Agent.command(self)


class GoClient(Client):
    """A Go program without dependencies, which runs the bridge itself."""

    @property
    def binary(self) -> Path:
        """The compiled program."""
        return self.directory / "client"

    def missing(self) -> str:
        if not shutil.which("go"):
            return "go is not installed"
        return "" if (SCRIPTS / self.script).is_dir() else f"clients/{self.script} is missing"

    def install(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["go", "build", "-o", self.binary, "."], cwd=SCRIPTS / self.script, check=True
        )

    def version(self) -> str:
        run = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True)
        return run.stdout.strip()

    def command(self) -> list[str]:
        script = ROOT / "examples" / "bridge.py"
        return [str(self.binary), sys.executable, str(script), str(embedded_model())]

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {**variables, "PYTHONPATH": str(ROOT)}


_AGENT = "coding_agents.py"
_IN_PROCESS = (
    *("openai", "openai-agents", "instructor", "anthropic"),
    *("langchain-openai", "pydantic-ai-slim[openai]", "smolagents[openai]"),
)

CLIENTS: tuple[Client, ...] = (
    PythonClient("openai (Python)", "openai_python.py", ("openai",)),
    NodeClient("openai (npm)", "openai_npm.mjs", ("openai", "zod")),
    NodeClient(
        "ai SDK (npm)", "ai_sdk.mjs", ("ai", "@ai-sdk/openai-compatible", "@ai-sdk/openai", "zod")
    ),
    PythonClient("instructor", "instructor_client.py", ("instructor",)),
    PythonClient("pydantic-ai", "pydantic_ai_client.py", ("pydantic-ai-slim[openai]",)),
    PythonClient("litellm", "litellm_client.py", ("litellm", "mcp")),
    PythonClient("llama-index", "llama_index_client.py", ("llama-index-llms-openai-like",)),
    PythonClient("smolagents", "smolagents_client.py", ("smolagents[openai]",)),
    PythonClient("dspy", "dspy_client.py", ("dspy",)),
    PythonClient("llm", "llm_client.py", ("llm",)),
    PythonClient("LangChain ChatOpenAI", "langchain_client.py", ("langchain-openai",)),
    PythonClient("openai-agents", "openai_agents_client.py", ("openai-agents",)),
    InProcessClient("in process", "in_process_client.py", _IN_PROCESS),
    PythonClient("anthropic", "anthropic_client.py", ("anthropic", "pydantic")),
    PythonClient("ollama", "ollama_client.py", ("ollama",)),
    PythonClient("lm-eval", "lm_eval_client.py", ("lm-eval[api]", "transformers")),
    GoClient("Go program (bridge)", "go"),
    NodeAgent("Codex", _AGENT, ("@openai/codex",), "codex"),
    NodeAgent("Claude Code", _AGENT, ("@anthropic-ai/claude-code",), "claude"),
    NodeAgent("opencode", _AGENT, ("opencode-ai",), "opencode"),
    NodeAgent("Qwen Code", _AGENT, ("@qwen-code/qwen-code",), "qwen"),
    PythonAgent("aider", _AGENT, ("aider-chat",), "aider"),
)
