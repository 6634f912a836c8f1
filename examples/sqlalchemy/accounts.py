"""An account that refuses a holder whose lease is over."""

import sqlalchemy as sa
from sqlalchemy import orm

from pyredisson import Redisson, StaleTokenError
from pyredisson.integrations.sqlalchemy import Fenced, write_with

client = Redisson.embedded()  # to try it out
lock = client.get_fenced_lock("account:7")
engine = sa.create_engine("sqlite://")


class Base(orm.DeclarativeBase):
    pass


class Account(Fenced, Base):
    __tablename__ = "accounts"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    balance: orm.Mapped[int]


def deposit(amount: int, token: int) -> None:
    with orm.Session(engine) as session:
        with write_with(session, token, rows=[(Account, 7)]):
            session.get_one(Account, 7).balance += amount
        session.commit()


Base.metadata.create_all(engine)
with orm.Session(engine) as session:
    session.add(Account(id=7, balance=100))
    session.commit()

with lock.hold() as early:
    late_token = early.token  # A pause begins here that is longer than the lease ...
with lock.hold() as later:
    deposit(5, later.token)
try:
    deposit(-70, late_token)  # ... and ends here.
except StaleTokenError as error:
    print(f"refused: {error.token} after {error.seen}")
with orm.Session(engine) as session:
    print(session.get_one(Account, 7).balance)
engine.dispose()
client.close()
