"""Classes of SQLAlchemy's ORM whose rows refuse late writers: each flush has the fencing token of its holder.

A row keeps the greatest token that has written to it. See :mod:`pyredisson.fencing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import event, orm

from pyredisson.fencing.sqlalchemy import fenced
from pyredisson.fencing.tokens import check_token, stale

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["Fenced", "write_with"]

_KEY = "pyredisson.fencing_token"


def write_with(session: orm.Session | AsyncSession, token: int | None) -> None:
    """Write with this fencing token in all that the session does from now on, until the next call.

    Args:
        session: A session, also one for asyncio.
        token: ``lease.token`` of a fenced lock.

    Raises:
        TypeError, ValueError: The token is not valid.
    """
    session.info[_KEY] = check_token(token)


class Fenced:
    """A mixin of mapped classes with a column ``fence`` for the fencing token.

    A flush that updates or deletes such an object raises ``StaleTokenError`` if a later holder has written to its row,
    and ``TypeError`` if the session has no token, see :func:`write_with`. So do ``update()`` and ``delete()``
    statements that the session executes. Roll back then. A new object needs no token.
    """

    fence: orm.Mapped[int | None] = orm.mapped_column(sqlalchemy.BigInteger, default=None)


def _advance(connection: Any, fence: Any, where: Any, token: int | None, what: str) -> int:
    """Write the token to the rows, which locks them until the transaction ends."""
    token = check_token(token)
    connection.execute(fenced(sqlalchemy.update(fence.table).where(where), fence, token=token))
    seen = connection.execute(sqlalchemy.select(sqlalchemy.func.max(fence)).where(where)).scalar()
    if seen is not None and seen > token:
        raise stale(what, token, seen)
    return token


@event.listens_for(Fenced, "before_update", propagate=True)
@event.listens_for(Fenced, "before_delete", propagate=True)
def _before_write(mapper: orm.Mapper[Any], connection: sqlalchemy.Connection, target: Any) -> None:
    session = orm.object_session(target)
    deleted = session is not None and target in session.deleted
    if session is None or not (deleted or session.is_modified(target, include_collections=False)):
        return
    key = zip(mapper.primary_key, mapper.primary_key_from_instance(target), strict=True)
    where = sqlalchemy.and_(*(column == value for column, value in key))
    target.fence = _advance(connection, mapper.columns["fence"], where, session.info.get(_KEY), mapper.class_.__name__)


@event.listens_for(Fenced, "before_insert", propagate=True)
def _before_insert(_mapper: orm.Mapper[Any], _connection: sqlalchemy.Connection, target: Any) -> None:
    session = orm.object_session(target)
    if session is not None:
        target.fence = session.info.get(_KEY, target.fence)


@event.listens_for(orm.Session, "do_orm_execute")
def _before_statement(state: orm.ORMExecuteState) -> None:
    mapper = state.bind_mapper
    if mapper is None or not (state.is_update or state.is_delete) or not issubclass(mapper.class_, Fenced):
        return
    where = getattr(state.statement, "whereclause", None)
    connection = state.session.connection(bind_arguments=state.bind_arguments)
    rows = sqlalchemy.true() if where is None else where
    _advance(connection, mapper.columns["fence"], rows, state.session.info.get(_KEY), mapper.class_.__name__)
