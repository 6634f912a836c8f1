"""The guards of ``pyredisson.fencing``, each with the write of a holder who was paused past its lease."""

from __future__ import annotations

import random
import sqlite3
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio

from pyredisson import LockError, Redisson, StaleTokenError
from pyredisson.fencing import check_token, http, sql
from pyredisson.fencing.redis import AsyncGuard, Guard
from tests.servers import HOST, Server


class Holders(NamedTuple):
    """The tokens of two holders: the first was paused, and does not know that its lease is over."""

    paused: int
    current: int


@pytest.fixture
def holders(valkey: Server, unique_name: str) -> Iterator[Holders]:
    with Redisson(redis.Redis(host=HOST, port=valkey.port)) as client:
        lock = client.get_fenced_lock(f"{unique_name}:lock")
        lock.lock_and_get_token()
        lock.unlock()
        paused = lock.lock_and_get_token(lease_time=30)
        with ThreadPoolExecutor(1) as other, valkey.client() as direct:
            direct.pexpire(lock.name, 1)
            current = other.submit(lock.lock_and_get_token, 30).result(10)
            assert current > paused
            yield Holders(paused, current)
            other.submit(lock.unlock).result(10)


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "error"), [(None, TypeError), ("7", TypeError), (True, TypeError), (-1, ValueError), (2**63, ValueError)]
)
def test_an_invalid_token_is_refused(token, error):
    with pytest.raises(error):
        check_token(token)
    with pytest.raises(error):
        sql.statement("t", {"a": 1}, {"id": 1}, token=token)
    with pytest.raises(error):
        http.header(token)


def test_the_error_says_what_happened():
    memory = http.Memory()
    memory.advance("orders", token=8)
    with pytest.raises(StaleTokenError, match="token 7 was refused: a later holder has written with token 8") as error:
        memory.advance("orders", token=7)
    assert (error.value.name, error.value.token, error.value.seen) == ("orders", 7, 8)
    assert isinstance(error.value, LockError)


# ---- SQL -------------------------------------------------------------------------------------------------------------


class Database(NamedTuple):
    """A database with a table of accounts, of which number 7 has 100."""

    connect: Callable[[], Any]
    url: str
    mark: str


def prepare(connection: Any) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute("DROP TABLE IF EXISTS accounts")
        cursor.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, note TEXT, fence BIGINT)")
        cursor.execute("INSERT INTO accounts VALUES (7, 100, NULL, NULL), (8, 50, NULL, NULL)")
    connection.commit()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        file = tmp_path / "bank.db"
        made = Database(lambda: sqlite3.connect(file), f"sqlite:///{file}", "?")
    else:
        import psycopg

        uri = request.getfixturevalue("postgres")
        made = Database(lambda: psycopg.connect(uri), uri.replace("postgresql://", "postgresql+psycopg://"), "%s")
    with closing(made.connect()) as connection:
        prepare(connection)
    return made


def account(database: Database, number: int = 7) -> tuple[int, int | None]:
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT balance, fence FROM accounts WHERE id = {number}")
        balance, fence = cursor.fetchone()
        return balance, fence


def test_a_row_refuses_a_late_write(database, holders):
    with closing(database.connect()) as late, closing(database.connect()) as connection:
        assert sql.update(late, "accounts", {"balance": 90}, {"id": 7}, token=holders.paused)
        late.commit()
        assert account(database) == (90, holders.paused)
        # It is paused here, and the next one writes, twice.
        for balance in (80, 70):
            assert sql.update(connection, "accounts", {"balance": balance}, {"id": 7}, token=holders.current)
            connection.commit()
        with pytest.raises(StaleTokenError) as error:
            sql.update(late, "accounts", {"balance": 60}, {"id": 7}, token=holders.paused)
        late.rollback()
        assert (error.value.name, error.value.token, error.value.seen) == ("accounts", *holders)
        assert sql.update(late, "accounts", {"balance": 40}, {"id": 8}, token=holders.paused), "another row"
        assert not sql.update(late, "accounts", {"balance": 40}, {"id": 99}, token=holders.current), "no row"
        late.commit()
    assert account(database) == (70, holders.current)
    assert account(database, 8) == (40, holders.paused)


def test_more_than_one_row_is_an_error(database):
    with closing(database.connect()) as connection:
        with pytest.raises(ValueError, match="2 rows"):
            sql.update(connection, "accounts", {"balance": 1}, {"note": None}, token=9)
        connection.rollback()
    assert account(database) == (100, None)


def test_two_writers_at_once_leave_the_greater_token(database):
    """The check and the write are one statement: the one who waits for the row checks again."""
    with closing(database.connect()) as later:
        sql.update(later, "accounts", {"balance": 80}, {"id": 7}, token=8)  # Not committed yet.
        refused = []

        def write_late():
            with closing(database.connect()) as earlier:
                try:
                    sql.update(earlier, "accounts", {"balance": 60}, {"id": 7}, token=7)
                except StaleTokenError as error:
                    refused.append(error)
                earlier.rollback()

        thread = threading.Thread(target=write_late)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it did not wait for the other's row"
        later.commit()
        thread.join(10)
    assert len(refused) == 1
    assert account(database) == (80, 8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("accounts; DROP TABLE accounts", {"balance": 1}, {"id": 7}), "not a valid name"),
        (("accounts", {"balance = 0 --": 1}, {"id": 7}), "not a valid name"),
        (("accounts", {"balance": 1}, {"1=1 OR id": 7}), "not a valid name"),
        (("accounts", {"balance": 1}, {}), "select a row"),
        (("accounts", {"fence": 1}, {"id": 7}), "column of the fencing token"),
    ],
)
def test_arguments_that_make_no_statement(arguments, says):
    with pytest.raises(ValueError, match=says):
        sql.statement(*arguments, token=1)


@pytest.mark.parametrize(
    ("style", "marks", "parameters"),
    [
        ("qmark", ("?", "?", "?", "?"), [5, 9, 7, 9]),
        ("format", ("%s", "%s", "%s", "%s"), [5, 9, 7, 9]),
        ("pyformat", ("%s", "%s", "%s", "%s"), [5, 9, 7, 9]),
        ("numeric", (":1", ":2", ":3", ":4"), [5, 9, 7, 9]),
        ("named", (":p1", ":p2", ":p3", ":p4"), {"p1": 5, "p2": 9, "p3": 7, "p4": 9}),
    ],
)
def test_the_statement_by_itself(style, marks, parameters):
    made = sql.statement("s.t", {"a": 5}, {"id": 7}, token=9, fence="f", paramstyle=style)
    text = "UPDATE s.t SET a = {}, f = {} WHERE id = {} AND (f IS NULL OR f <= {})".format(*marks)
    assert made == (text, parameters)


# ---- SQLAlchemy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orm", [False, True], ids=["core", "orm"])
def test_sqlalchemy(database, holders, orm):
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    from sqlalchemy.orm import DeclarativeBase, Session, mapped_column

    from pyredisson.fencing import sqlalchemy as guard

    class Base(DeclarativeBase):
        pass

    class Account(Base):
        __tablename__ = "accounts"
        id = mapped_column(sqlalchemy.Integer, primary_key=True)
        balance = mapped_column(sqlalchemy.Integer)
        fence = mapped_column(sqlalchemy.BigInteger)

    engine = sqlalchemy.create_engine(database.url)
    target = Account if orm else Account.__table__
    columns = Account if orm else Account.__table__.c

    def begin():
        return Session(engine) if orm else engine.connect()

    def set_balance(balance, number=7):
        return sqlalchemy.update(target).where(columns.id == number).values(balance=balance)

    with begin() as connection:
        assert guard.update(connection, set_balance(90), columns.fence, token=holders.paused)
        assert guard.update(connection, set_balance(80), columns.fence, token=holders.current)
        connection.commit()
    with begin() as connection:
        with pytest.raises(StaleTokenError):
            guard.update(connection, set_balance(60), columns.fence, token=holders.paused)
        assert connection.execute(guard.fenced(set_balance(60), columns.fence, token=holders.paused)).rowcount == 0
        assert not guard.update(connection, set_balance(60, 99), columns.fence, token=holders.paused)
        with pytest.raises(ValueError, match="select a row"):
            guard.update(connection, sqlalchemy.update(target).values(balance=1), columns.fence, token=1)
        everybody = sqlalchemy.update(target).where(columns.id > 0).values(balance=1)
        with pytest.raises(ValueError, match="2 rows"):
            guard.update(connection, everybody, columns.fence, token=holders.current)
        with pytest.raises(TypeError):
            guard.fenced(set_balance(1), columns.fence, token=None)
        connection.rollback()
    engine.dispose()
    assert account(database) == (80, holders.current)


# ---- Redis -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
def data(request: pytest.FixtureRequest, server: Server) -> Iterator[redis.Redis]:
    with redis.Redis(host=HOST, port=server.port, decode_responses=request.param) as client:
        yield client


def test_a_key_refuses_a_late_write(data, holders, unique_name):
    guard = Guard(data)
    guard.set(unique_name, "by the paused one", token=holders.paused, ttl=30)
    assert 25 < data.ttl(unique_name) <= 30
    guard.set(unique_name, "by the current one", token=holders.current)
    guard.set(unique_name, b"and once more", token=holders.current)
    with pytest.raises(StaleTokenError) as error:
        guard.set(unique_name, "late", token=holders.paused)
    assert (error.value.name, error.value.token, error.value.seen) == (unique_name, *holders)
    assert data.get(unique_name) in ("and once more", b"and once more")
    data.delete(unique_name)
    with pytest.raises(StaleTokenError):
        guard.set(unique_name, "late", token=holders.paused)
    data.delete(f"pyredisson_fence:{{{unique_name}}}")


def test_a_hash_refuses_a_late_write(data, holders, unique_name):
    guard = Guard(data)
    guard.hset(unique_name, {"sold": 1, "left": 9.5}, token=holders.paused)
    guard.hset(unique_name, {"sold": 2}, token=holders.current)
    with pytest.raises(StaleTokenError):
        guard.hset(unique_name, {"sold": 0}, token=holders.paused)
    with pytest.raises(ValueError, match="of the fencing token"):
        guard.hset(unique_name, {"fence": 99}, token=holders.current)
    stored = {
        key if isinstance(key, str) else key.decode(): value if isinstance(value, str) else value.decode()
        for key, value in data.hgetall(unique_name).items()
    }
    assert stored == {"sold": "2", "left": "9.5", "fence": str(holders.current)}
    data.delete(unique_name)


async def test_the_same_under_asyncio(server, holders, unique_name):
    async with redis.asyncio.Redis(host=HOST, port=server.port) as client:
        guard = AsyncGuard(client)
        await guard.set(unique_name, "1", token=holders.current)
        await guard.hset(unique_name + "h", {"a": 1}, token=holders.current)
        await guard.advance(unique_name + "r", token=holders.current)
        for late in (
            guard.set(unique_name, "2", token=holders.paused),
            guard.hset(unique_name + "h", {"a": 2}, token=holders.paused),
            guard.advance(unique_name + "r", token=holders.paused),
        ):
            with pytest.raises(StaleTokenError):
                await late
        assert await client.get(unique_name) == b"1"
        await client.delete(unique_name, unique_name + "h")


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def test_a_gate_refuses_a_late_write(holders):
    gate = http.Gate()

    def status(token, resource="/orders/7"):
        return gate.check(resource, {"wsgi.version": (1, 0), "HTTP_X_FENCING_TOKEN": str(token)}).status

    assert [status(token) for token in (holders.paused, holders.current, holders.current)] == [200, 200, 200]
    assert status(holders.paused) == 412
    assert status(holders.paused, "/orders/8") == 200
    assert gate.check("/orders/7", {"wsgi.version": (1, 0)}).status == 428
    for wrong in ("x", "-1", "1.5", "", " 7", "9" * 19, "1" * 20, "7,8", "\u0661"):
        assert status(wrong) == 400, wrong


def test_a_gate_does_not_grow_without_end():
    gate = http.Gate()
    assert gate.check("/orders/7", http.header(5)).passes
    tracemalloc.start()
    try:
        for number in range(102_000):
            verdict = gate.check(f"/none/{number}/{'x' * 500}", http.header(1))
        assert tracemalloc.get_traced_memory()[0] < 30_000_000
    finally:
        tracemalloc.stop()
    assert verdict.status == 503
    assert "after their route was found" in verdict.reason
    assert [gate.check("/orders/7", http.header(token)).status for token in (4, 5, 6)] == [412, 200, 200]


def test_a_gate_over_redis(holders, valkey, unique_name):
    def header(number):
        ((name, value),) = http.header(number).items()
        return name.lower().encode(), value.encode()

    with redis.Redis(host=HOST, port=valkey.port) as data:
        gate = http.Gate(Guard(data), required=False)
        for headers, status in (
            ([header(holders.current)], 200),
            ([header(holders.paused)], 412),
            ([header(1), header(holders.current)], 400),
            ([], 200),
        ):
            verdict = gate.check(unique_name, [(b"host", b"x"), *headers])
            assert (verdict.status, verdict.passes) == (status, status == 200)
        data.delete(f"pyredisson_fence:{{{unique_name}}}")


def test_headers_of_any_make():
    for headers in (
        {"X-Fencing-Token": "7"},
        {"x-fencing-token": 7},
        {"HTTP_X_FENCING_TOKEN": "7", "other": object()},
        [(b"X-Fencing-Token", b"7")],
        [("x-fencing-token", "7"), ("x-fencing-token-too", "8")],
    ):
        assert http.token_of(headers) == 7
    assert http.token_of({}) is None
    assert http.header(7) == {"X-Fencing-Token": "7"}


def test_a_gate_lets_one_of_many_at_once_be_the_last():
    gate = http.Gate()
    tokens = list(range(400))
    random.Random(7).shuffle(tokens)
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda token: gate.check("r", http.header(token)), tokens))
    assert {verdict.status for verdict in verdicts} == {200, 412}
    assert gate.check("r", http.header(398)).status == 412
    assert gate.check("r", http.header(399)).passes
