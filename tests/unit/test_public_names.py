"""What users see of a class is where they find it: no message, no help text and no type names an inner module."""

import inspect
import pydoc
import re
from types import ModuleType

import pytest

import pyredisson
import pyredisson.asyncio

PACKAGES = pytest.mark.parametrize("package", [pyredisson, pyredisson.asyncio], ids=lambda package: package.__name__)

#: Names of classes that are bases of public ones, or have another name where they are made.
INNER = re.compile(r"pyredisson\._|\b(?:AnyLock|AnySemaphore|AnyLease|AnyTerm|BaseClient|LockBlock)\b")


def classes_of(package: ModuleType) -> list[type]:
    return [value for name in package.__all__ if inspect.isclass(value := getattr(package, name))]


@PACKAGES
def test_public_classes_name_their_public_module(package):
    for kind in classes_of(package):
        assert re.fullmatch(r"pyredisson(\.asyncio|\.[a-z]+)?", kind.__module__), kind
        assert kind.__module__ != "pyredisson.asyncio" or getattr(pyredisson.asyncio, kind.__name__) is kind


@PACKAGES
def test_help_names_no_inner_module_or_base(package):
    for kind in classes_of(package):
        found = INNER.findall(pydoc.plain(pydoc.render_doc(kind)))
        assert not found, (kind, found)


@PACKAGES
def test_errors_of_calls_name_the_public_class(package):
    with pytest.raises(TypeError, match=r"^Redisson\.get_lock\(\)"):
        package.Redisson.get_lock()
    with pytest.raises(TypeError, match=r"^Lock\.is_locked\(\)"):
        package.FairLock.is_locked()
    assert repr(package.Lock) == f"<class '{package.__name__}.Lock'>"
