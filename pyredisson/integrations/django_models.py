"""Models of Django whose rows refuse late writers: each write has the fencing token of its holder.

A row keeps the greatest token that has written to it. See :mod:`pyredisson.fencing`.
"""

# Django has no types, and what is inferred from its sources is wrong.
# pyright: reportArgumentType=false
# pyright: reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import models, router, transaction

from pyredisson.fencing.tokens import check_token, stale

__all__ = ["FencedModel", "FencedQuerySet", "writing_with"]

_token: ContextVar[int | None] = ContextVar("pyredisson.fencing_token", default=None)


@contextmanager
def writing_with(token: int | None) -> Iterator[None]:
    """Write with this fencing token while the block runs, in this thread or task and in what it calls.

    Args:
        token: ``lease.token`` of a fenced lock.

    Raises:
        TypeError, ValueError: The token is not valid.
    """
    before = _token.set(check_token(token))
    try:
        yield
    finally:
        _token.reset(before)


class FencedQuerySet(models.QuerySet):
    """A query set whose ``update()`` and ``delete()`` refuse a stale token for all of their rows together."""

    def update(self, **values: Any) -> int:
        """Update the rows, in a transaction.

        Raises:
            StaleTokenError: A later holder has written to one of them; nothing was written.
            TypeError: There is no token: the caller is not in :func:`writing_with`.
        """
        with transaction.atomic(using=self.db):
            token = self._advance()
            return int(models.QuerySet.update(self._written_with(token), **values))

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows, in a transaction. Raises as :meth:`update`."""
        with transaction.atomic(using=self.db):
            token = self._advance()
            deleted: tuple[int, dict[str, int]] = models.QuerySet.delete(self._written_with(token))
            return deleted

    def _written_with(self, token: int | None) -> Any:
        """Return the rows that are locked, without those that another writer has added meanwhile."""
        return self if token is None else self.filter(fence__lte=token)

    def _advance(self) -> int | None:
        """Write the token to the rows, which locks them; return it, or ``None`` if there are no rows and no token."""
        token = _token.get()
        if token is None and not self.exists():
            return None
        token = check_token(token)
        earlier = self.filter(models.Q(fence__isnull=True) | models.Q(fence__lte=token))
        models.QuerySet.update(earlier, fence=token)
        seen = self.filter(fence__gt=token).aggregate(seen=models.Max("fence"))["seen"]
        if seen is not None:
            raise stale(self.model._meta.label, token, seen)
        return token


class FencedModel(models.Model):
    """An abstract model with a column for the fencing token.

    ``save()`` of a row that exists, ``delete()``, and both for query sets need a token: see :func:`writing_with`.
    """

    fence = models.BigIntegerField(null=True, default=None, editable=False)

    objects = models.Manager.from_queryset(FencedQuerySet)()

    class Meta:
        abstract = True

    def save(
        self,
        *,
        force_insert: Any = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Save the row. Raises as :meth:`FencedQuerySet.update`."""
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            if not force_insert:
                self._advance_row(using)
            if _token.get() is not None:
                self.fence = _token.get()
            super().save(force_insert=force_insert, force_update=force_update, using=using, update_fields=update_fields)

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete the row. Raises as :meth:`FencedQuerySet.update`."""
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            self._advance_row(using)
            deleted: tuple[int, dict[str, int]] = super().delete(using=using, keep_parents=keep_parents)
            return deleted

    def _advance_row(self, using: str) -> None:
        if self.pk is not None:
            FencedQuerySet(type(self), using=using).filter(pk=self.pk)._advance()
