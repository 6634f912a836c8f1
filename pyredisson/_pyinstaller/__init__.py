"""What PyInstaller needs to know. It finds this by the entry point ``pyinstaller40``; no option is needed."""

from __future__ import annotations

import os


def hook_dirs() -> list[str]:
    """Return where the hooks are."""
    return [os.path.dirname(__file__)]
