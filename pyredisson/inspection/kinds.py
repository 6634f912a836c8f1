"""What all kinds say of themselves: how they are stored, and what lists call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import get_args

from pyredisson._core.kind import Form, StoredKind
from pyredisson._shared.kinds import MODULES


@cache
def stored_kinds() -> Mapping[str, StoredKind]:
    """Return all kinds by their words: of each form the first is what it is taken for. This loads them all."""
    modules = dict.fromkeys(
        import_module(f"pyredisson.{name}") for name in MODULES.values() if name.startswith("_kinds.")
    )
    return {each.kind: each for module in modules for each in module.STORED}


@cache
def usual_kind(form: Form) -> StoredKind:
    """Return what something of this form is taken for if nothing says more."""
    return next(each for each in stored_kinds().values() if each.form == form)


@cache
def numbered_kinds() -> Mapping[str, StoredKind]:
    """Return those that have no owner, by their words."""
    return {word: each for word, each in stored_kinds().items() if each.number is not None}


def shown_kinds() -> Sequence[str]:
    """Return the words for those that an inspection recognizes by what is stored."""
    usual = [usual_kind(form) for form in get_args(Form)]
    return [word for word, each in stored_kinds().items() if each in usual or each.shown_by or each.number]


@cache
def labels() -> Mapping[str, str]:
    """Return what lists call the kinds and their sides, by their words."""
    return {
        word: label for each in stored_kinds().values() for word, label in {each.kind: each.label, **each.sides}.items()
    }
