"""Loading a model on all ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from ..models.load_options import LoadOptions
from ..models.loading import LoadedModel
from ..replication import register
from .follower import follow
from .leader import Leader
from .session import Member, Session, join
from .sharding import load_sharded


def lead_or_follow(member: Member | None = None) -> Leader:
    """Join the process group. On ranks other than 0, follow rank 0 until it ends.

    Args:
        member: Is aborted if a rank fails.

    Returns:
        The leader, on rank 0.

    Raises:
        InvalidOptionError: No launcher has started the process.
        DistributedError: The group cannot be formed, or a rank has failed.
        SystemExit: Rank 0 has ended; on other ranks.
    """
    session = join()
    if not session.leads:
        session.follow(follow)
    if member is not None:
        session.watch(member)
    return _leader(session)


def load_on_all_ranks(
    leader: Leader, model: str | os.PathLike[str] | None, options: LoadOptions
) -> LoadedModel:
    """Load a model, of which each rank holds a shard.

    To be called on rank 0, on the thread that will run the model.

    Args:
        leader: The leader.
        model: Directory or Hugging Face repo id, on all ranks; ``None``: the embedded model.
        options: How to load it.

    Raises:
        ModelError: The model cannot be loaded, or does not divide by the number of ranks.
        InvalidOptionError: An option does not apply to distributed models.
    """
    name = None if model is None else os.fspath(model)
    given = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
    loaded: LoadedModel = leader.perform(_LOAD, (name, given))
    return loaded


def _load(model: str | None, options: Mapping[str, Any]) -> LoadedModel:
    return load_sharded(model, LoadOptions(**options), join().group)


_LOAD = register(_load, creates=attrgetter("model"))


@cache
def _leader(session: Session) -> Leader:
    return Leader(session.channel, session.group)
