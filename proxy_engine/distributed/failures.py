"""Failures of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DistributedError

_COLLECTIVES = ("[ring]", "[mpi]", "[jaccl]", "[nccl]")


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of a run.

    Attributes:
        rank: The rank that failed; ``None`` if it is unknown.
        reason: Why, as the end of a sentence.
    """

    rank: int | None
    reason: str

    def __str__(self) -> str:
        which = "a rank" if self.rank is None else f"rank {self.rank}"
        return f"{which} has failed: {self.reason}"

    def error(self) -> DistributedError:
        """Return the error of requests."""
        return DistributedError(str(self), rank=self.rank, hint="Start all ranks again.")


def is_lost_connection(error: BaseException) -> bool:
    """Whether an exception says that another rank cannot be reached, not which one or why."""
    return isinstance(error, RuntimeError) and str(error).startswith(_COLLECTIVES)
