"""Entry point of ``python -m proxy_engine`` and of the ``proxy-engine`` command."""

from __future__ import annotations

import signal
import sys

# Ctrl-C during the imports ends the process without a traceback.
_HANDLER = signal.getsignal(signal.SIGINT)
if _HANDLER is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from .cli.main import main as run  # noqa: E402


def main() -> int:
    """Run the command of ``sys.argv``, and return the exit status."""
    signal.signal(signal.SIGINT, _HANDLER)
    status = run()
    if _HANDLER is signal.default_int_handler:
        # The same at the end, for a second Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


if __name__ == "__main__":
    sys.exit(main())
