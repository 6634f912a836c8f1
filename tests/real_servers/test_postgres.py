"""What the pages say of PostgreSQL: a lock around its transactions, and its own locks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyredisson import Redisson
from tests.waiting import until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

LOCK = "SELECT pg_advisory_xact_lock(7)"
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(7)"
SOLD = "SELECT count(*) FROM tickets WHERE seat = 7"
SELL = "INSERT INTO tickets VALUES (7)"

Connect = Callable[..., Any]


@pytest.fixture
def connect(postgres: str) -> Iterator[Connect]:
    """``connect(isolation="REPEATABLE READ")``: a connection to a database in which no seat is sold."""
    made: list[Any] = []

    def connect(isolation: str = "READ COMMITTED") -> Any:
        made.append(psycopg.connect(postgres))
        made[-1].isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_")]
        return made[-1]

    with connect() as connection:
        connection.execute("CREATE TABLE tickets (seat INTEGER)")
    yield connect
    for connection in made:
        connection.close()
    with psycopg.connect(postgres) as connection:
        connection.execute("DROP TABLE tickets")


def value(connection: Any, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def waits_for_the_lock(observer: Any) -> bool:
    waiting: bool = value(observer, "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    observer.rollback()
    return waiting


# ---- a lock of ours around a transaction -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isolation", "began_before", "sold"),
    [
        ("REPEATABLE READ", True, 2),
        ("REPEATABLE READ", False, 1),
        ("READ COMMITTED", True, 1),
        ("READ COMMITTED", False, 1),
    ],
)
def test_a_transaction_that_began_before_the_lock_sees_the_past(
    connect, valkey, unique_name, isolation, began_before, sold
):
    """It raises no error, and sells the seat a second time."""

    def sell(connection):
        with client.get_lock(unique_name).hold(wait_time=5):
            if value(connection, SOLD) == 0:
                connection.execute(SELL)
            connection.commit()

    with Redisson.from_url(valkey.url) as client:
        late, early = connect(isolation), connect(isolation)
        if began_before:
            value(late, "SELECT count(*) FROM tickets WHERE seat = 8")
        sell(early)
        sell(late)
    assert value(early, SOLD) == sold


# ---- PostgreSQL's own locks ------------------------------------------------------------------------------------------


def test_the_first_error_of_a_transaction_frees_its_locks(connect):
    with connect() as connection:
        connection.execute(SELL)
    holder, other = connect(), connect()
    holder.execute(LOCK)
    holder.execute("SELECT * FROM tickets WHERE seat = 7 FOR UPDATE")
    assert value(other, TRY_LOCK) is False
    with pytest.raises(psycopg.errors.DivisionByZero):
        holder.execute("SELECT 1 / 0")
    assert holder.info.transaction_status == psycopg.pq.TransactionStatus.INERROR  # It was not rolled back yet.
    assert value(other, TRY_LOCK) is True
    other.execute("SELECT * FROM tickets WHERE seat = 7 FOR UPDATE NOWAIT")


def test_a_timeout_of_idle_transactions_ends_the_lock_and_the_writes(connect):
    holder, other = connect(), connect()
    holder.execute("SET idle_in_transaction_session_timeout = '300ms'")
    holder.execute(LOCK)
    holder.execute(SELL)
    until(lambda: value(other, TRY_LOCK), what="another transaction has the lock")
    with pytest.raises(psycopg.Error):
        holder.commit()
    assert value(other, SOLD) == 0


@pytest.mark.parametrize(
    ("isolation", "lock", "seen"),
    [
        ("READ COMMITTED", LOCK, 1),
        ("REPEATABLE READ", LOCK, 0),
        ("READ COMMITTED", f"SELECT count(*) FROM tickets, ({LOCK}) AS lock", 0),
    ],
    ids=["a statement of its own", "repeatable read", "with the read in one statement"],
)
def test_what_is_read_under_an_advisory_lock(connect, isolation, lock, seen):
    """The snapshot is that of the statement, or of the transaction, and is made before the statement waits."""
    holder, waiter, observer = connect(), connect(isolation), connect()
    found = []

    def wait():
        first = value(waiter, lock)
        found.append(value(waiter, SOLD) if lock == LOCK else first)

    holder.execute(LOCK)
    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: waits_for_the_lock(observer), what="it waits for the lock")
    holder.execute(SELL)
    holder.commit()
    thread.join(10)
    assert found == [seen]


def test_a_killed_client_keeps_its_lock_until_its_statement_ends(connect, postgres):
    program = f"import psycopg; c = psycopg.connect({postgres!r}); c.execute({LOCK!r}); c.execute('SELECT pg_sleep(2)')"
    other = connect()
    other.autocommit = True  # In a transaction it would see the activity of its beginning.
    client = subprocess.Popen([sys.executable, "-c", program])
    until(lambda: value(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), what="it sleeps")
    client.kill()
    client.wait()
    time.sleep(0.5)
    assert value(other, TRY_LOCK) is False
    until(lambda: value(other, TRY_LOCK), what="the statement has ended")


def test_a_session_of_sqlalchemy_sees_the_past_unless_its_transaction_ends_before_the_lock(
    connect, postgres, valkey, unique_name
):
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    from sqlalchemy import orm

    url = postgres.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, isolation_level="REPEATABLE READ")
    sold = sqlalchemy.text(SOLD)
    try:
        with Redisson.from_url(valkey.url) as client, orm.Session(engine) as session:
            assert session.scalar(sold) == 0
            with connect() as connection, client.get_lock(unique_name).hold():
                connection.execute(SELL)
            with client.get_lock(unique_name).hold():
                assert session.scalar(sold) == 0
            session.commit()
            with client.get_lock(unique_name).hold():
                assert session.scalar(sold) == 1
            session.rollback()
    finally:
        engine.dispose()
