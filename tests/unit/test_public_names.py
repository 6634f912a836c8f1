"""What users see of a class is where they find it: no message, no help text and no type names an inner module."""

import inspect
import pydoc
import re
from types import ModuleType

import pytest

import pyredisson
import pyredisson.asyncio

#: Names of classes that are bases of public ones, or have another name where they are made.
INNER = re.compile(r"pyredisson\._|\b(?:AnyLock|AnySemaphore|AnyLease|AnyTerm|BaseClient|LockBlock)\b")


def classes_of(package: ModuleType) -> list[type]:
    return [value for name in package.__all__ if inspect.isclass(value := getattr(package, name))]


def test_public_classes_name_their_public_module(form):
    for kind in classes_of(form):
        assert re.fullmatch(r"pyredisson(\.asyncio|\.[a-z]+)?", kind.__module__), kind
        assert kind.__module__ != "pyredisson.asyncio" or getattr(pyredisson.asyncio, kind.__name__) is kind


def test_help_names_no_inner_module_or_base(form):
    for kind in classes_of(form):
        found = INNER.findall(pydoc.plain(pydoc.render_doc(kind)))
        assert not found, (kind, found)


def test_errors_of_calls_name_the_public_class(form):
    with pytest.raises(TypeError, match=r"^Redisson\.get_lock\(\)"):
        form.Redisson.get_lock()
    with pytest.raises(TypeError, match=r"^Lock\.is_locked\(\)"):
        form.FairLock.is_locked()
    assert repr(form.Lock) == f"<class '{form.__name__}.Lock'>"
