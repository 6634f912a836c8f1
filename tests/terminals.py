"""A terminal for programs under test: what is typed, and what they show."""

import os
import pty
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import until


class Terminal:
    """A terminal: what is typed, and all that was shown."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self.ours, 4096)
            except OSError:
                return  # Nobody has it open any more.
            if not chunk:
                return
            self._shown += chunk

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    @property
    def text(self) -> str:
        """All that was shown; complete once the terminal is closed."""
        return self._shown.decode(errors="replace")  # The last character may be a part of one.

    def shows(self, pattern: str, within: float = 20) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            return re.search(pattern, self.text)

        return until(found, within, what=f"{pattern!r} on the terminal")


@contextmanager
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    try:
        yield opened
    finally:
        os.close(opened.theirs)
        opened._reader.join(20)
        os.close(opened.ours)
