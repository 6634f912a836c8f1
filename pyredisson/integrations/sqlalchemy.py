"""Classes of SQLAlchemy's ORM whose rows refuse late writers: each row is written with the token of its lock.

A row keeps the greatest token that has written to it. See :mod:`pyredisson.fencing`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

from pyredisson._shared.arguments import Extra
from pyredisson.fencing.sqlalchemy import fenced
from pyredisson.fencing.tokens import check_token, stale

with Extra("sqlalchemy"):
    import sqlalchemy
    from sqlalchemy import event, orm
    from sqlalchemy.sql import visitors

if TYPE_CHECKING:
    from pyredisson.lease import AnyLease

__all__ = ["Fenced", "Writing", "write_with"]

_KEY = "pyredisson.writing"


def write_with(session: Any, lease: AnyLease[int] | int, *, rows: Any) -> Writing:
    """Return a block in which a session writes these rows with the fencing token of the lock that guards them.

    The block flushes when it ends, and the session keeps nothing of it. Tokens of different locks are counted
    separately, so each row needs that of its own lock: give each lock a block, one inside the other.

    Example::

        with lock.hold() as lease, write_with(session, lease, rows=[(Account, 7)]):
            session.get_one(Account, 7).balance += 1

    Args:
        session: A session, or the registry of a scoped one. With those for asyncio it is ``async with``.
        lease: The hold of a fenced lock, or its token.
        rows: What that lock guards: a list of mapped objects, of ``(Account, primary key)``, and of classes, for all of
            their rows; or one of these.

    Raises:
        TypeError, ValueError: The token or a row is not valid.
    """
    return Writing(session, check_token(getattr(lease, "token", lease)), rows)


@final
class Writing:
    """The block of :func:`write_with`."""

    def __init__(self, session: Any, token: int, rows: Any) -> None:
        aio: Any = sys.modules.get("sqlalchemy.ext.asyncio")  # It needs greenlet; who has such a session has loaded it.
        registries = (orm.scoped_session, aio.async_scoped_session) if aio else orm.scoped_session
        self._given: Any = session() if isinstance(session, registries) else session
        self._session: orm.Session = getattr(self._given, "sync_session", self._given)
        self.token = token
        self._rows = [_row(each) for each in (rows if isinstance(rows, list) else [rows])]

    def guards(self, mapper: orm.Mapper[Any], identity: Any, target: object = None) -> bool:
        """Return whether its lock guards a row. ``identity``: its primary key; ``None``: it has none yet."""
        row = (mapper.base_mapper.class_, identity)
        return any(each is target or each == row for each in self._rows) or self.guards_all_of(mapper)

    def guards_all_of(self, mapper: orm.Mapper[Any]) -> bool:
        """Return whether its lock guards all rows of a class."""
        return any(isinstance(each, type) and issubclass(mapper.class_, each) for each in self._rows)

    def __enter__(self) -> None:
        if self._given is not self._session:
            raise TypeError("write_with() of a session for asyncio is a block of `async with`")
        self._begin()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if error is None:
                self._session.flush()
        finally:
            self._end()

    async def __aenter__(self) -> None:
        self._begin()

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if error is None:
                await self._given.flush()
        finally:
            self._end()

    def _begin(self) -> None:
        self._session.info[_KEY] = [*_blocks(self._session), self]

    def _end(self) -> None:
        self._session.info[_KEY] = [each for each in _blocks(self._session) if each is not self]
        if not self._session.info[_KEY]:
            del self._session.info[_KEY]


def _blocks(session: orm.Session) -> list[Writing]:
    blocks: list[Writing] = session.info.get(_KEY, [])
    return blocks


def _row(given: Any) -> Any:
    """Return a row as it is compared: a class, an object that is not stored yet, or its class and primary key."""
    if isinstance(given, type) and issubclass(given, Fenced):
        return given
    if isinstance(given, Fenced):
        state = sqlalchemy.inspect(given)
        return given if state.identity is None else (state.mapper.base_mapper.class_, tuple(state.identity))
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], type) and issubclass(given[0], Fenced):
        key = given[1] if isinstance(given[1], tuple) else (given[1],)
        return sqlalchemy.inspect(given[0]).base_mapper.class_, key
    raise TypeError(f"a row is an object of a class with Fenced, such a class, or (class, primary key), not {given!r}")


def _token_of(session: orm.Session, mapper: orm.Mapper[Any], identity: Any, target: object = None) -> int:
    """Return the token to write a row with: that of the innermost block whose lock guards it."""
    for block in reversed(_blocks(session)):
        if block.guards(mapper, identity, target):
            return block.token
    raise TypeError(
        f"there is no fencing token for {mapper.class_.__name__} {identity}: write it in a block of "
        "write_with(session, lease, rows=[...]) that names it"
    )


class Fenced:
    """A mixin of mapped classes with a column ``fence`` for the fencing token.

    A flush that updates or deletes such an object raises ``StaleTokenError`` if a later holder has written to its row,
    and ``TypeError`` if no block of :func:`write_with` has a token for this row. So do ``update()`` and ``delete()``
    statements that the session executes. Roll back then. A new object needs no token.
    """

    fence: orm.Mapped[int | None] = orm.mapped_column(sqlalchemy.BigInteger, default=None)


def _advance(
    connection: Any, fence: Any, where: Any, token: int, what: str, given: Mapping[str, Any] | None = None
) -> int:
    """Write the token to the rows, which locks them until the transaction ends. ``given``: parameters of ``where``."""
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
    identity = sqlalchemy.inspect(target).identity  # As it is stored: the key itself may be what changes.
    token = _token_of(session, mapper, tuple(identity), target)
    where = _is_row(mapper, identity)
    target.fence = _advance(connection, mapper.columns["fence"], where, token, mapper.class_.__name__)


def _is_row(mapper: orm.Mapper[Any], identity: Any) -> Any:
    return sqlalchemy.and_(*(column == value for column, value in zip(mapper.primary_key, identity, strict=True)))


@event.listens_for(Fenced, "before_insert", propagate=True)
def _before_insert(mapper: orm.Mapper[Any], _connection: sqlalchemy.Connection, target: Any) -> None:
    session = orm.object_session(target)
    if session is not None:
        guarding = (each for each in reversed(_blocks(session)) if each.guards(mapper, _key_of(mapper, target), target))
        target.fence = next((each.token for each in guarding), target.fence)


def _key_of(mapper: orm.Mapper[Any], target: object) -> tuple[Any, ...]:
    return tuple(mapper.primary_key_from_instance(target))


@event.listens_for(orm.Session, "do_orm_execute")
def _before_statement(state: orm.ORMExecuteState) -> None:
    mapper = state.bind_mapper
    if mapper is None or not (state.is_update or state.is_delete) or not issubclass(mapper.class_, Fenced):
        return
    connection = state.session.connection(bind_arguments=state.bind_arguments)
    fence, what, session = mapper.columns["fence"], mapper.class_.__name__, state.session
    for rows, given in _rows_of(state, mapper):
        innermost = _blocks(session)[-1:]
        if innermost and innermost[0].guards_all_of(mapper):
            _advance(connection, fence, rows, innermost[0].token, what, given)
            continue
        keys = sqlalchemy.select(*mapper.primary_key).select_from(mapper).where(rows).with_for_update()
        for key in connection.execute(keys, given).all():
            _advance(connection, fence, _is_row(mapper, key), _token_of(session, mapper, tuple(key)), what)


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
