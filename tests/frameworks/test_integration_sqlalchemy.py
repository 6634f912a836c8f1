"""``pyredisson.integrations.sqlalchemy``: rows refuse late writers, whatever writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
        if token is not None:
            write_with(session, token)
        write(session)
        session.commit()


def rows(engine: sqlalchemy.Engine) -> list[tuple[int, ...]]:
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT id, balance, fence FROM accounts ORDER BY id"))
        return [tuple(row) for row in found]


@pytest.mark.parametrize("late", WRITES)
def test_a_late_writer_is_refused(engine: sqlalchemy.Engine, late: Write) -> None:
    for each in (change, change_subclass):
        write(engine, 5, each)
    before = rows(engine)
    with pytest.raises(StaleTokenError, match=r"token 4 was refused.*token 5") as refused:
        write(engine, 4, late)
    assert (refused.value.token, refused.value.seen) == (4, 5)
    assert rows(engine) == before


@pytest.mark.parametrize("later", WRITES)
@pytest.mark.parametrize("token", [5, 6], ids=["the same holder", "a later holder"])
def test_the_same_and_a_later_holder_write(engine: sqlalchemy.Engine, later: Write, token: int) -> None:
    for each in (change, change_subclass):
        write(engine, 5, each)
    before = rows(engine)
    write(engine, token, later)
    assert rows(engine) != before or later is change_subclass
    assert all(fence in (None, 5, token) for _, _, fence in rows(engine))


@pytest.mark.parametrize("without", WRITES)
def test_a_write_without_a_token_is_refused(engine: sqlalchemy.Engine, without: Write) -> None:
    before = rows(engine)
    with pytest.raises(TypeError, match="no fencing token"):
        write(engine, None, without)
    assert rows(engine) == before


def test_an_update_by_key_does_not_touch_other_rows(engine: sqlalchemy.Engine) -> None:
    write(engine, 5, change_subclass)
    write(engine, 4, change_by_key)
    assert rows(engine) == [(7, 0, 4), (8, 200, None), (9, 300, 5)]


def test_a_late_writer_that_read_before_is_refused(engine: sqlalchemy.Engine) -> None:
    with orm.Session(engine, expire_on_commit=False) as session:
        account = session.get_one(Account, 7)
        session.commit()
        write(engine, 2, change)
        write_with(session, 1)
        account.balance = 0
        with pytest.raises(StaleTokenError):
            session.commit()
    assert rows(engine)[0] == (7, 101, 2)


def test_a_new_row_has_the_token_of_its_writer(engine: sqlalchemy.Engine) -> None:
    with orm.Session(engine) as session:
        write_with(session, 3)
        session.add(Account(id=10, balance=1))
        session.commit()
    assert rows(engine)[-1] == (10, 1, 3)


def test_what_is_not_changed_needs_no_token(engine: sqlalchemy.Engine) -> None:
    with orm.Session(engine) as session:
        account = session.get_one(Account, 7)
        account.balance = account.balance
        session.commit()
    assert rows(engine)[0] == (7, 100, None)


def test_a_session_for_asyncio_passes_the_token_on() -> None:
    from sqlalchemy.ext.asyncio import AsyncSession

    session = AsyncSession()
    write_with(session, 5)
    assert session.sync_session.info == session.info != {}
