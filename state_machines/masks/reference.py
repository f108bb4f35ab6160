"""The definition of a mask. It is slow; all other modules of masks compute the same set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from state_machines.grammar.node import EMPTY, Node
from state_machines.vocabulary import Vocabulary


def reference_mask(state: Node, vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """Return the allowed tokens of a state: bool, shape (vocabulary.size,).

    A token is allowed if a word of the state's language begins with its bytes, and an end token
    also if the state accepts. Tokens that a grammar names by number are left out.
    """
    mask = np.zeros(vocabulary.size, np.bool_)
    ends = vocabulary.end_token_ids
    forms = [
        (form, token_id) for token_id, form in enumerate(vocabulary.token_bytes) if form is not None
    ]
    # The states after the bytes of the token before; sorted tokens share most of them.
    path, before = [state], b""
    for form, token_id in sorted(forms):
        shared = 0
        while shared < min(len(form), len(path) - 1) and form[shared] == before[shared]:
            shared += 1
        del path[shared + 1 :]
        for byte in form[shared:]:
            path.append(path[-1].derivative(byte) if path[-1] is not EMPTY else EMPTY)
        before = form
        mask[token_id] = path[-1] is not EMPTY
    mask[list(ends)] |= state.nullable
    return mask
