"""What pytest loads wherever pyredisson is installed: the fixtures, but no earlier than its session begins.

Until then nothing of the library is imported, so that coverage sees all of it. ``-p no:pyredisson`` turns it off.
"""

from __future__ import annotations

from typing import Any


def pytest_sessionstart(session: Any) -> None:
    """Load the fixtures, unless a conftest has."""
    session.config.pluginmanager.import_plugin("pyredisson.testing.plugin")
