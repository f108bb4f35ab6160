"""The ids of tool calls."""

from __future__ import annotations

import string
import uuid
from dataclasses import dataclass
from secrets import choice as any_of


@dataclass(frozen=True)
class CallIds:
    """The ids of a family's calls.

    Attributes:
        pattern: The text that the model writes for ``{id}`` in the head or foot, as a pattern.
        template: The id, with ``{id}`` for that text. If it is empty, the text is not an id.
        length: The number of letters and digits of generated ids; ``None`` for any form.
    """

    pattern: str = ""
    template: str = "{id}"
    length: int | None = None

    def new(self, name: str, index: int) -> str:
        """Return an id for a call whose id the model did not write.

        Args:
            name: The name of the tool.
            index: The number of the call in the answer, from 0.
        """
        if "{name}" in self.template:
            return self.template.replace("{name}", name).replace("{id}", str(index))
        if self.length is None:
            return f"call_{uuid.uuid4().hex[:24]}"
        letters = string.ascii_letters + string.digits
        return "".join(any_of(letters) for _ in range(self.length))


ANY_IDS = CallIds()
"""The model writes no ids, and any id suits it."""
