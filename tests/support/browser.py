"""Headless Chromium, by the WebDriver protocol (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

TAB, ENTER, ESCAPE, CONTROL = "\ue004", "\ue007", "\ue00c", "\ue009"


class Browser:
    """One window."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http = http
        self._path = f"/session/{session}"

    def command(self, path: str, **body: Any) -> Any:
        reply = self._http.post(f"{self._path}/{path}", json=body).json()["value"]
        assert not (isinstance(reply, dict) and "error" in reply), reply
        return reply

    def open(self, url: str) -> None:
        self.command("url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.command("execute/sync", script=script, args=list(arguments))

    def keys(self, *keys: str) -> None:
        """Press keys one after the other, and let go of all of them."""
        down = [{"type": "keyDown", "value": key} for key in keys]
        up = [{"type": "keyUp", "value": key} for key in reversed(keys)]
        actions = [{"type": "key", "id": "keyboard", "actions": [*down, *up]}]
        self.command("actions", actions=actions)

    def write(self, text: str) -> None:
        """Type into the focused element."""
        for letter in text:
            self.keys(letter)

    def wait_for(self, script: str, seconds: float = 20) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, script
            time.sleep(0.02)
        return value

    def screenshot(self) -> bytes:
        return base64.b64decode(self._http.get(f"{self._path}/screenshot").json()["value"])


@contextlib.contextmanager
def browsing(width: int = 1200, height: int = 900) -> Iterator[Browser]:
    """A browser, for as long as the context lasts."""
    assert CHROMIUM
    assert DRIVER
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        # A microphone that beeps, without a question to the user.
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--window-size={width},{height}",
    ]
    options = {"binary": CHROMIUM, "args": arguments}
    wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            deadline = time.monotonic() + 20
            while True:
                try:
                    if http.get("/status").json()["value"]["ready"]:
                        break
                except httpx.HTTPError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            session = http.post("/session", json=wanted).json()["value"]["sessionId"]
            try:
                yield Browser(http, session)
            finally:
                http.delete(f"/session/{session}")
    finally:
        process.terminate()
        process.wait(10)
