"""Classes of SQLAlchemy's ORM whose rows refuse late writers: each flush has the fencing token of its holder.

A row keeps the greatest token that has written to it. See :mod:`pyredisson.fencing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import event, orm
from sqlalchemy.sql import visitors

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


def _advance(
    connection: Any, fence: Any, where: Any, token: int | None, what: str, given: Mapping[str, Any] | None = None
) -> int:
    """Write the token to the rows, which locks them until the transaction ends. ``given``: parameters of ``where``."""
    token = check_token(token)
    connection.execute(fenced(sqlalchemy.update(fence.table).where(where), fence, token=token), given)
    seen = connection.execute(sqlalchemy.select(sqlalchemy.func.max(fence)).where(where), given).scalar()
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
    # As it is stored: the key itself may be what changes.
    key = zip(mapper.primary_key, sqlalchemy.inspect(target).identity, strict=True)
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
    connection = state.session.connection(bind_arguments=state.bind_arguments)
    token, what = state.session.info.get(_KEY), mapper.class_.__name__
    for rows, given in _rows_of(state, mapper):
        _advance(connection, mapper.columns["fence"], rows, token, what, given)


def _rows_of(state: orm.ORMExecuteState, mapper: orm.Mapper[Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield which rows a statement writes, and the parameters of that condition, for each of its sets of parameters."""
    where, given = getattr(state.statement, "whereclause", None), state.parameters
    sets: list[Any] = given if isinstance(given, list) else [given or {}]
    for parameters in sets:
        if where is not None:
            names = {each.key for each in visitors.iterate(where) if isinstance(each, sqlalchemy.BindParameter)}
            yield where, {name: value for name, value in parameters.items() if name in names}
        elif isinstance(given, list):  # It names each row by its primary key.
            key = {column: mapper.get_property_by_column(column).key for column in mapper.primary_key}
            yield sqlalchemy.and_(sqlalchemy.true(), *(column == parameters.get(key[column]) for column in key)), {}
        else:
            yield sqlalchemy.true(), {}
