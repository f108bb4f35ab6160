"""The launcher that has started the process, from the environment variables that it sets.

The variables are those of ``mlx.launch`` (mlx 0.32, ``mlx._distributed_utils.launch``), and for the
backend ``mpi`` those of Open MPI's ``mpirun``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..errors import InvalidOptionError

Backend: TypeAlias = Literal["ring", "jaccl", "nccl", "mpi"]

_HINT = "Start the program with mlx.launch, or with mpirun; docs/scaling.md has examples."


@dataclass(frozen=True, slots=True)
class Launch:
    """How the process was started.

    Attributes:
        backend: The backend of ``mlx.core.distributed``.
        is_single: Whether the run has a single rank, according to the launcher.
        addresses: Addresses of rank 0 that the launcher names: IP addresses or host names.
    """

    backend: Backend
    is_single: bool = False
    addresses: tuple[str, ...] = ()


def detect_launch(environment: Mapping[str, str]) -> Launch:
    """Return how the process was started.

    Args:
        environment: The environment variables of the process.

    Raises:
        InvalidOptionError: No launcher has started it, or the launcher's file cannot be read.
    """
    if "MLX_JACCL_COORDINATOR" in environment and "MLX_IBV_DEVICES" in environment:
        return Launch("jaccl", addresses=(_host(environment["MLX_JACCL_COORDINATOR"]),))
    if "NCCL_HOST_IP" in environment and "MLX_WORLD_SIZE" in environment:
        is_single = environment["MLX_WORLD_SIZE"] == "1"
        return Launch("nccl", is_single, (environment["NCCL_HOST_IP"],))
    if "MLX_HOSTFILE" in environment and "MLX_RANK" in environment:
        ranks = _ring(environment["MLX_HOSTFILE"])
        addresses = tuple(dict.fromkeys(map(_host, ranks[0]))) if ranks else ()
        return Launch("ring", len(ranks) < 2, addresses)
    if "OMPI_COMM_WORLD_SIZE" in environment:
        return Launch("mpi", environment["OMPI_COMM_WORLD_SIZE"] == "1")
    raise InvalidOptionError(
        "distributed requires several processes, and no launcher has started this one",
        option="distributed",
        hint=_HINT,
    )


def _ring(path: str) -> list[list[str]]:
    """Return the addresses with ports of each rank; of a single rank, the file is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
        ranks = json.loads(text) if text else []
        return [[str(address) for address in rank] for rank in ranks]
    except (OSError, ValueError, TypeError) as error:
        raise InvalidOptionError(
            f"distributed: the file of hosts {path!r} (MLX_HOSTFILE) cannot be read: {error}",
            option="distributed",
            hint=_HINT,
        ) from error


def _host(address: str) -> str:
    """Return an address without its port."""
    return address.rpartition(":")[0].strip("[]")
