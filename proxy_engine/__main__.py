"""Entry point of ``python -m proxy_engine`` and of the ``proxy-engine`` command."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
