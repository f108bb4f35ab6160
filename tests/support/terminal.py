"""A terminal that records its output."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading


class Terminal:
    """A terminal of 100 columns with its recorded output."""

    def __init__(self) -> None:
        self._main, self.end = pty.openpty()
        subprocess.run(["stty", "cols", "100"], stdin=self.end, check=True)
        self._content = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._main, 4096)
            except OSError:
                return
            if not chunk:
                return
            self._content += chunk

    def read(self) -> str:
        """All of it, once no process has it any more."""
        os.close(self.end)
        self._reader.join(60)
        os.close(self._main)
        return self._content.decode()


def plain(shown: str) -> str:
    """Without what moves the cursor, erases and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
