"""A fence in a row of a table, for SQLAlchemy 2, Core and ORM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy

from pyredisson.fencing.tokens import check_token, stale

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

__all__ = ["fenced", "update"]


def fenced(statement: sqlalchemy.Update, fence: Any, *, token: int) -> sqlalchemy.Update:
    """Return the statement with a fence: it writes no row in which a greater token has been before.

    Args:
        statement: ``sqlalchemy.update(...)``.
        fence: The column of the token: ``accounts.c.fence``, ``Account.fence``.
        token: The token of the hold under which this is written.
    """
    check_token(token)
    return statement.where(sqlalchemy.or_(fence.is_(None), fence <= token)).values({fence: token})


def update(
    connection: sqlalchemy.Connection | Session, statement: sqlalchemy.Update, fence: Any, *, token: int
) -> bool:
    """Execute :func:`fenced`, and say what came of it. Commits nothing: that is the caller's.

    Args:
        connection: A connection, or a session.
        statement: The update of one row.
        fence: The column of the token.
        token: The token of the hold under which this is written.

    Returns:
        Whether there is such a row.

    Raises:
        StaleTokenError: A later holder has written there. Roll back.
        ValueError: The statement does not say which row, or more than one was written (roll back).
    """
    which = statement.whereclause
    if which is None:
        raise ValueError("the statement must say which row: .where(...)")
    result: Any = connection.execute(fenced(statement, fence, token=token))
    if result.rowcount > 1:
        raise ValueError(f"the statement wrote {result.rowcount} rows, and has to write one: roll back")
    if result.rowcount == 1:
        return True
    row = connection.execute(sqlalchemy.select(fence).where(which)).first()
    if row is None:
        return False
    if row[0] is not None and row[0] > token:
        raise stale(str(fence), token, row[0])
    return True
