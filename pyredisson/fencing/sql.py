"""Fencing guards for rows of a table, for any DB-API 2.0 driver: ``sqlite3``, ``psycopg`` and so on.

The table has a column for the token, a nullable ``BIGINT``. The check and the write are one statement, so they are
atomic.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import closing, nullcontext
from typing import Any

from pyredisson.fencing.tokens import check_token, stale

__all__ = ["statement", "update"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")


def update(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    where: Mapping[str, Any],
    *,
    token: int,
    fence: str = "fence",
    paramstyle: str | None = None,
) -> bool:
    """Update one row unless it has seen a greater fencing token. The caller commits.

    Example::

        with lock.hold() as lease:
            update(connection, "accounts", {"balance": 90}, {"id": 7}, token=lease.token)

    Args:
        connection: A connection of a DB-API driver, or a cursor.
        table: The table's name. It becomes part of the statement as it is, as do the names of columns.
        values: The columns to set.
        where: The columns that select the row; they must select at most one.
        token: The fencing token of the caller's hold.
        fence: The column that keeps the token.
        paramstyle: The ``paramstyle`` of the driver's module; detected if ``None``.

    Returns:
        Whether the row exists.

    Raises:
        StaleTokenError: A later holder has written to the row. Roll back.
        ValueError: More than one row was written (roll back), a name is not valid, or the driver's ``paramstyle`` is
            unknown.
        TypeError: The token is not valid.
    """
    style = paramstyle or _paramstyle_of(connection)
    sql, parameters = statement(table, values, where, token=token, fence=fence, paramstyle=style)
    is_cursor = not hasattr(connection, "cursor")
    with nullcontext(connection) if is_cursor else closing(connection.cursor()) as cursor:
        cursor.execute(sql, parameters)
        if cursor.rowcount > 1:
            raise ValueError(
                f"{dict(where)!r} selects {cursor.rowcount} rows of {table}, but must select one: roll back"
            )
        if cursor.rowcount == 1:
            return True
        given = _Parameters(style)
        condition = _all_of(where, given)
        cursor.execute(f"SELECT {fence} FROM {table} WHERE {condition}", given.all)
        row = cursor.fetchone()
    if row is None:
        return False
    if row[0] is not None and row[0] > token:
        raise stale(table, token, row[0])
    return True  # Some drivers do not count a row that is as it was.


def statement(
    table: str,
    values: Mapping[str, Any],
    where: Mapping[str, Any],
    *,
    token: int,
    fence: str = "fence",
    paramstyle: str = "qmark",
) -> tuple[str, list[Any] | dict[str, Any]]:
    """Return the ``UPDATE`` statement of :func:`update` and its parameters, for an asyncio driver.

    It updates no row if the row does not exist or has seen a greater token.
    """
    check_token(token)
    for name in (table, fence, *values, *where):
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a valid name of a table or column: names that need quotes are not supported"
            )
    if not where:
        raise ValueError("where must select a row")
    if fence in values or fence in where:
        raise ValueError(f"{fence!r} is the column of the fencing token, which update() sets and checks")
    given = _Parameters(paramstyle)
    assignments = ", ".join(f"{column} = {given.add(value)}" for column, value in ({**values, fence: token}).items())
    condition = _all_of(where, given)
    sql = f"UPDATE {table} SET {assignments} WHERE {condition} AND ({fence} IS NULL OR {fence} <= {given.add(token)})"
    return sql, given.all


def _all_of(where: Mapping[str, Any], given: _Parameters) -> str:
    return " AND ".join(
        f"{column} IS NULL" if value is None else f"{column} = {given.add(value)}" for column, value in where.items()
    )


class _Parameters:
    """The parameters of a statement, marked as the driver wants it."""

    def __init__(self, style: str) -> None:
        if style not in ("qmark", "format", "pyformat", "numeric", "named"):
            raise ValueError(f"paramstyle must be one of DB-API 2.0, not {style!r}")
        self._style = style
        self.all: list[Any] | dict[str, Any] = {} if style == "named" else []

    def add(self, value: Any) -> str:
        """Add one, and return its mark."""
        number = len(self.all) + 1
        if isinstance(self.all, dict):
            self.all[f"p{number}"] = value
            return f":p{number}"
        self.all.append(value)
        return {"qmark": "?", "numeric": f":{number}"}.get(self._style, "%s")


def _paramstyle_of(connection: object) -> str:
    """What the driver's module says; it may be a module within a package, and drivers are wrapped."""
    parts = type(connection).__module__.split(".")
    for length in range(len(parts), 0, -1):
        style = getattr(sys.modules.get(".".join(parts[:length])), "paramstyle", None)
        if isinstance(style, str):
            return style
    raise ValueError(
        f"the paramstyle of {type(connection)!r} is unknown: pass paramstyle='qmark' or the one of your driver"
    )
