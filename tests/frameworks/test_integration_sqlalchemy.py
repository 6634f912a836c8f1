"""``pyredisson.integrations.sqlalchemy``: rows refuse late writers, whatever writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyredisson import StaleTokenError

sqlalchemy = pytest.importorskip("sqlalchemy")

from sqlalchemy import orm  # noqa: E402

from pyredisson.integrations.sqlalchemy import Fenced, write_with  # noqa: E402


class Base(orm.DeclarativeBase):
    pass


class Account(Fenced, Base):
    __tablename__ = "accounts"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    balance: orm.Mapped[int]
    kind: orm.Mapped[str] = orm.mapped_column(default="account")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "account"}  # noqa: RUF012


class Savings(Account):
    __tablename__ = "savings"
    id: orm.Mapped[int] = orm.mapped_column(sqlalchemy.ForeignKey("accounts.id"), primary_key=True)
    rate: orm.Mapped[int] = orm.mapped_column(default=1)
    __mapper_args__ = {"polymorphic_identity": "savings"}  # noqa: RUF012


def test_the_page_runs_as_printed(open_page):
    page = open_page("sqlalchemy")
    page.run("python accounts.py")
    page.check_all_entered()


@pytest.fixture
def engine() -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all([Account(id=7, balance=100), Account(id=8, balance=200), Savings(id=9, balance=300)])
        session.commit()
    yield engine
    engine.dispose()


def change(session: orm.Session) -> None:
    session.get_one(Account, 7).balance += 1


def change_subclass(session: orm.Session) -> None:
    session.get_one(Savings, 9).rate += 1


def delete(session: orm.Session) -> None:
    session.delete(session.get_one(Account, 7))


def change_all(session: orm.Session) -> None:
    session.execute(sqlalchemy.update(Account).values(balance=0))


def delete_some(session: orm.Session) -> None:
    session.execute(sqlalchemy.delete(Account).where(Account.id < 9, Account.kind == "account"))


def change_by_query(session: orm.Session) -> None:
    session.query(Account).filter(Account.balance > 50).update({Account.balance: 0})


def change_by_key(session: orm.Session) -> None:
    session.execute(sqlalchemy.update(Account), [{"id": 7, "balance": 0}])


def change_by_parameter(session: orm.Session) -> None:
    where = Account.id == sqlalchemy.bindparam("which")
    session.execute(sqlalchemy.update(Account).where(where).values(balance=0), {"which": 7})


def change_the_key(session: orm.Session) -> None:
    session.get_one(Account, 7).id = 70


Write = Callable[[orm.Session], None]
WRITES = [change, change_subclass, delete, change_all, delete_some, change_by_query]
WRITES += [change_by_key, change_by_parameter, change_the_key]


def write(engine: sqlalchemy.Engine, token: int | None, write: Write) -> None:
    with orm.Session(engine) as session:
        if token is None:
            write(session)
        else:
            with write_with(session, token, rows=Account):
                write(session)
        session.commit()


def rows(engine: sqlalchemy.Engine) -> list[tuple[int, ...]]:
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT id, balance, fence FROM accounts ORDER BY id"))
        return [tuple(row) for row in found]


@pytest.mark.parametrize("late", WRITES)
def test_a_late_writer_is_refused(engine, late):
    for each in (change, change_subclass):
        write(engine, 5, each)
    before = rows(engine)
    with pytest.raises(StaleTokenError, match=r"token 4 was refused.*token 5") as refused:
        write(engine, 4, late)
    assert (refused.value.token, refused.value.seen) == (4, 5)
    assert rows(engine) == before


@pytest.mark.parametrize("later", WRITES)
@pytest.mark.parametrize("token", [5, 6], ids=["the same holder", "a later holder"])
def test_the_same_and_a_later_holder_write(engine, later, token):
    for each in (change, change_subclass):
        write(engine, 5, each)
    before = rows(engine)
    write(engine, token, later)
    assert rows(engine) != before or later is change_subclass
    assert all(fence in (None, 5, token) for _, _, fence in rows(engine))


@pytest.mark.parametrize("without", WRITES)
def test_a_write_without_a_token_is_refused(engine, without):
    before = rows(engine)
    with pytest.raises(TypeError, match="no fencing token"):
        write(engine, None, without)
    assert rows(engine) == before


def test_an_update_by_key_does_not_touch_other_rows(engine):
    write(engine, 5, change_subclass)
    write(engine, 4, change_by_key)
    assert rows(engine) == [(7, 0, 4), (8, 200, None), (9, 300, 5)]


def test_a_late_writer_that_read_before_is_refused(engine):
    with orm.Session(engine, expire_on_commit=False) as session:
        account = session.get_one(Account, 7)
        session.commit()
        write(engine, 2, change)
        with pytest.raises(StaleTokenError), write_with(session, 1, rows=[account]):
            account.balance = 0
        session.rollback()
    assert rows(engine)[0] == (7, 101, 2)


def test_a_new_row_has_the_token_of_its_writer(engine):
    with orm.Session(engine) as session:
        with write_with(session, 3, rows=[(Account, 10)]):
            session.add(Account(id=10, balance=1))
        session.commit()
    assert rows(engine)[-1] == (10, 1, 3)


def test_what_is_not_changed_needs_no_token(engine):
    with orm.Session(engine) as session:
        account = session.get_one(Account, 7)
        account.balance = account.balance
        session.commit()
    assert rows(engine)[0] == (7, 100, None)


def two_locks(session: Any, write: Write, autoflush: bool = False) -> None:
    with write_with(session, 222, rows=[(Account, 7)]), write_with(session, 3, rows=[(Account, 8)]):
        write(session)
        if autoflush:
            session.scalars(sqlalchemy.select(Account)).all()


def transfer(session: Any) -> None:
    session.get_one(Account, 7).balance -= 1
    session.get_one(Account, 8).balance += 1


def transfer_by_statement(session: Any) -> None:
    session.execute(sqlalchemy.update(Account).where(Account.id < 9).values(balance=Account.balance + 1))


@pytest.mark.parametrize("write", [transfer, transfer_by_statement])
@pytest.mark.parametrize("autoflush", [False, True])
def test_each_row_is_written_with_the_token_of_its_own_lock(engine, write, autoflush):
    with orm.Session(engine) as session:
        two_locks(session, write, autoflush)
        assert session.info == {}
        session.commit()
    assert [fence for _, _, fence in rows(engine)] == [222, 3, None]


def test_a_row_that_no_lock_guards_is_refused_and_a_session_keeps_nothing(engine):
    session = orm.scoped_session(orm.sessionmaker(engine))
    for write in (transfer, transfer_by_statement):
        with (
            pytest.raises(TypeError, match=r"no fencing token for Account \(8,\)"),
            write_with(session, 222, rows=(Account, 7)),
        ):
            write(session)
        session.rollback()
    account = session.get_one(Account, 7)
    writing = write_with(session, 222, rows=account)
    writing.__enter__()
    account.balance = 0
    writing.__exit__(KeyError, KeyError(), None)
    with pytest.raises(TypeError, match=r"no fencing token for Account \(7,\)"):
        session.commit()
    session.remove()
    assert [fence for _, _, fence in rows(engine)] == [None] * 3


@pytest.mark.parametrize("wrong", [7, "accounts", (Account,), int])
def test_what_is_no_row_is_refused(wrong):
    with pytest.raises(TypeError, match="a row is"):
        write_with(orm.Session(), 5, rows=[wrong])


async def test_a_session_for_asyncio_flushes_at_the_end_of_its_block(engine):
    from sqlalchemy.ext.asyncio import AsyncSession

    session = AsyncSession()
    session.sync_session.bind = engine  # A driver of threads does for a test.
    with pytest.raises(TypeError, match="async with"), write_with(session, 5, rows=(Account, 7)):
        pass
    async with write_with(session, 5, rows=(Account, 7)):
        (await session.get_one(Account, 7)).balance += 1
    assert session.info == {}
    await session.commit()
    await session.close()
    assert rows(engine)[0] == (7, 101, 5)
