"""Fencing guards for rows of a table, for SQLAlchemy 2, Core and ORM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyredisson._shared.arguments import Extra
from pyredisson.fencing.tokens import check_token, stale

with Extra("sqlalchemy"):
    import sqlalchemy

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

__all__ = ["fenced", "update"]


def fenced(statement: sqlalchemy.Update, fence: Any, *, token: int) -> sqlalchemy.Update:
    """Return the statement with a fence: it does not update a row that has seen a greater fencing token.

    Args:
        statement: ``sqlalchemy.update(...)``.
        fence: The column that keeps the token: ``accounts.c.fence``, ``Account.fence``.
        token: The fencing token of the caller's hold.
    """
    check_token(token)
    return statement.where(sqlalchemy.or_(fence.is_(None), fence <= token)).values({fence: token})


def update(
    connection: sqlalchemy.Connection | Session, statement: sqlalchemy.Update, fence: Any, *, token: int
) -> bool:
    """Execute the statement with a fence (see :func:`fenced`). The caller commits.

    Args:
        connection: A connection, or a session.
        statement: The update of one row.
        fence: The column that keeps the token.
        token: The fencing token of the caller's hold.

    Returns:
        Whether the row exists.

    Raises:
        StaleTokenError: A later holder has written to the row. Roll back.
        ValueError: The statement does not select a row, or more than one was written (roll back).
    """
    which = statement.whereclause
    if which is None:
        raise ValueError("the statement must select a row: .where(...)")
    result: Any = connection.execute(fenced(statement, fence, token=token))
    if result.rowcount > 1:
        raise ValueError(f"the statement wrote {result.rowcount} rows, but must write one: roll back")
    if result.rowcount == 1:
        return True
    row = connection.execute(sqlalchemy.select(fence).where(which)).first()
    if row is None:
        return False
    if row[0] is not None and row[0] > token:
        raise stale(str(fence), token, row[0])
    return True
