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
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson._shared.arguments import Extra
from pyredisson.fencing.tokens import check_token, stale

with Extra("django"):
    from django.db import models, router, transaction
    from django.db.models.signals import class_prepared, pre_delete

if TYPE_CHECKING:
    from pyredisson.lease import AnyLease

__all__ = ["FencedModel", "FencedQuerySet", "writing_with"]

_Block: TypeAlias = tuple[int, list[Any]]
"""A token, and the rows that its lock guards."""

_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("pyredisson.fencing_blocks", default=())


@contextmanager
def writing_with(lease: AnyLease[int] | int, *, rows: Any) -> Iterator[None]:
    """Write these rows with the fencing token of the lock that guards them while the block runs.

    It counts in this thread or task and in what it calls. Tokens of different locks are counted separately, so each row
    needs that of its own lock: give each lock a block, one inside the other.

    Args:
        lease: The hold of a fenced lock, or its token.
        rows: What that lock guards: a list of objects, of ``(Account, primary key)``, and of models, for all of their
            rows; or one of these.

    Raises:
        TypeError, ValueError: The token or a row is not valid.
    """
    token = check_token(getattr(lease, "token", lease))
    block = token, [_row(each) for each in (rows if isinstance(rows, list) else [rows])]
    before = _blocks.set((*_blocks.get(), block))
    try:
        yield
    finally:
        _blocks.reset(before)


def _row(given: Any) -> Any:
    """Return a row as it is compared: a model, an object without a primary key, or model and primary key."""
    if isinstance(given, type) and issubclass(given, FencedModel):
        return given
    if isinstance(given, FencedModel):
        return given if given.pk is None else _key(type(given), given.pk)
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], type)
        and issubclass(given[0], FencedModel)
    ):
        return _key(given[0], given[1])
    raise TypeError(f"a row is an object of a FencedModel, such a model, or (model, primary key), not {given!r}")


def _key(model: Any, key: Any) -> tuple[Any, Any]:
    """Name a row alike by each of its models: by the one that has its token."""
    return model._meta.get_field("fence").model, model._meta.pk.to_python(key)


def _guards_all(block: _Block, model: Any) -> bool:
    return any(isinstance(each, type) and issubclass(model, each) for each in block[1])


def _token_of(model: Any, key: Any, target: object = None) -> int | None:
    """Return the token to write a row with: that of the innermost block whose lock guards it."""
    for block in reversed(_blocks.get()):
        if _guards_all(block, model) or any(each is target or each == _key(model, key) for each in block[1]):
            return block[0]
    return None


class FencedQuerySet(models.QuerySet):
    """A query set that writes each row with the token of its lock, and none of them if one of the tokens is stale."""

    def update(self, **values: Any) -> int:
        """Update the rows, in a transaction.

        Raises:
            StaleTokenError: A later holder has written to one of them; nothing was written.
            TypeError: No block of :func:`writing_with` names one of them.
        """
        with transaction.atomic(using=self.db):
            return int(models.QuerySet.update(self._advance(), **values))

    def bulk_create(self, objs: Any, *args: Any, update_conflicts: bool = False, **options: Any) -> Any:
        """Create rows.

        Raises:
            TypeError: ``update_conflicts=True``, which would write to rows whose tokens are not known.
        """
        if update_conflicts or args[2:3] == (True,):
            raise TypeError("bulk_create(update_conflicts=True) does not know which rows it writes to; use save()")
        return super().bulk_create(objs, *args, **options)

    def _advance(self) -> Any:
        """Write the tokens to the rows, which locks them; return those rows, without what others have added since."""
        innermost = _blocks.get()[-1:]
        if innermost and _guards_all(innermost[0], self.model):
            self._write_token(innermost[0][0])
            return self.filter(fence__lte=innermost[0][0])
        keys = list(self.order_by().values_list("pk", flat=True))
        for key in keys:
            _row_of(self.model, key, self.db)._write_token(_check(_token_of(self.model, key), self.model, key))
        return self.filter(pk__in=keys)

    def _write_token(self, token: int) -> None:
        earlier = self.filter(models.Q(fence__isnull=True) | models.Q(fence__lte=token))
        models.QuerySet.update(earlier, fence=token)
        seen = self.filter(fence__gt=token).aggregate(seen=models.Max("fence"))["seen"]
        if seen is not None:
            raise stale(self.model._meta.label, token, seen)


def _row_of(model: Any, key: Any, using: str) -> Any:
    return FencedQuerySet(model, using=using).filter(pk=key)


def _check(token: int | None, model: Any, key: Any) -> int:
    if token is None:
        raise TypeError(
            f"there is no fencing token for {model._meta.label} {key}: write it in a block of "
            "writing_with(lease, rows=[...]) that names it"
        )
    return token


class FencedModel(models.Model):
    """An abstract model with a column for the fencing token.

    ``save()`` of a row that exists, ``delete()``, also of rows that follow another one, and both for query sets need a
    token: see :func:`writing_with`.
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
        token = _token_of(type(self), self.pk, self)
        with transaction.atomic(using=using):
            row = _row_of(type(self), self.pk, using)
            if self.pk is not None and not force_insert and (token is not None or row.exists()):
                row._write_token(_check(token, type(self), self.pk))
            if token is not None:
                self.fence = token
            super().save(force_insert=force_insert, force_update=force_update, using=using, update_fields=update_fields)


def _before_delete(sender: Any, instance: Any, using: str, **_: object) -> None:
    """Write the token to a row that is deleted: by itself, in a query set, or since it refers to another row."""
    token = _check(_token_of(sender, instance.pk), sender, instance.pk)
    _row_of(sender, instance.pk, using)._write_token(token)


def _guard_deletes(sender: Any, **_: object) -> None:
    if issubclass(sender, FencedModel):
        pre_delete.connect(_before_delete, sender=sender)


class_prepared.connect(_guard_deletes)
