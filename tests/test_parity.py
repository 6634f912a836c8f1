"""Both façades have the same names, methods, parameters, defaults, annotations and docstrings; one is awaited."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import pyredisson
import pyredisson.asyncio

#: What sends nothing is a plain call in both façades. Everything else of the asyncio façade is a coroutine.
PLAIN = {
    "renew_identity",
    "from_url",
    "from_env",
    "embedded",
    "new_owner",
    "hold",
    "validity",
    "read_lock",
    "write_lock",
    "delays",
    "remaining",
    "ensure_held",
    "start",
    "observe",
    "term",
    "run_once",
    "synchronized",
}

#: What the asyncio façade has more, and what the thread one has in its place (or nothing).
ASYNCIO_ONLY_PARAMETERS = {
    ("Lock", "hold"): {"cancel_on_loss: 'bool' = False"},
    ("FencedLock", "hold"): {"cancel_on_loss: 'bool' = False"},
    ("Hold", "__init__"): {"cancel_on_loss: 'bool'"},
}
ASYNCIO_ONLY_METHODS = {"is_held_by_current_task": "is_held_by_current_thread", "aclose": "close"}

#: Properties whose value is on the server: of the asyncio façade they are awaited.
AWAITED_PROPERTIES = {"n_waiting", "broken"}

DUNDERS = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
ASYNCIO_ONLY_DUNDERS = {"Campaign": {"__await__"}}

#: What only the docstring of an asyncio class says.
ASYNCIO_ONLY_TEXT = {
    "Campaign": "``campaign`` waits until it has ended, as :meth:`join` does. ",
    "Term": "The callback is cancelled when it has to return, wherever it waits. ",
    "Redisson": "It serves one event loop at a time. If that loop was closed, the client starts afresh on the next "
    "one, and its earlier holds are lost; use from a second live loop raises ``RuntimeError``. ",
}


@dataclasses.dataclass(frozen=True)
class Method:
    """What a caller sees of a method: how it is called, not what it does."""

    kind: str
    parameters: tuple[str, ...]
    returns: str
    coroutine: bool
    doc: str

    @classmethod
    def of(cls, owner: type, name: str) -> Method:
        found = inspect.getattr_static(owner, name)
        kind = type(found).__name__
        if isinstance(found, property):
            function = found.fget
        elif isinstance(found, (classmethod, staticmethod)):
            function = found.__func__
        else:
            function = found
        assert function is not None
        signature = inspect.signature(function)
        parameters = tuple(without_asyncio(str(each)) for each in signature.parameters.values())
        coroutine = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        return cls(
            kind, parameters, without_asyncio(str(signature.return_annotation)), coroutine, function.__doc__ or ""
        )


def without_asyncio(annotation: str) -> str:
    # What synchronized() decorates is awaited there.
    annotation = re.sub(r"Coroutine\[Any, Any, (R|R \| Skipped)\]", r"\1", annotation)
    annotation = annotation.replace("AsyncIterator[", "Iterator[")
    annotation = annotation.replace("Callable[[Term], Awaitable[object]]", "Callable[[Term], object]")
    return re.sub(r"\bFactory\b", "Redisson", re.sub(r"\bredis\.asyncio\.", "redis.", annotation))


def written_in(owner: type, name: str) -> str:
    """The name of the class that a method comes from. What an asyncio client makes is in its base."""
    written = next(base.__name__ for base in owner.__mro__ if name in vars(base))
    return without_asyncio(written)


def same_words(doc: str) -> str:
    """A docstring without what differs on purpose: ``await``, ``async``, tasks for threads, and line breaks."""
    doc = re.sub(r"\b(?:await|async) ", "", doc.replace("redis.asyncio.", "redis."))
    doc = re.sub(r"\b([Tt])ask(s?)\b", lambda found: ("T" if found[1] == "T" else "t") + f"hread{found[2]}", doc)
    return " ".join(doc.split())


def without_parameters(doc: str, names: set[str]) -> str:
    """A docstring without what it says of these parameters."""
    for name in names:
        doc = re.sub(rf"^( +){name}: .*\n(?:\1 .*\n)*", "", doc, flags=re.MULTILINE)
    return doc


def public_methods(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def written_methods(owner: type) -> set[str]:
    """The special methods that the class or a base of it defines."""
    return {
        name
        for base in owner.__mro__
        if base is not object
        for name, value in vars(base).items()
        if name.startswith("__") and inspect.isfunction(value)
    }


def twins() -> list[tuple[str, type, type]]:
    """The classes that exist twice: one for threads and one for tasks."""
    return [
        (name, ours, theirs)
        for name in pyredisson.__all__
        if inspect.isclass(ours := getattr(pyredisson, name))
        and ours is not (theirs := getattr(pyredisson.asyncio, name, None))
        and theirs is not None
    ]


def differences(name: str, ours: type, theirs: type) -> list[str]:
    """What is not the same in the two classes, in words."""
    found: list[str] = []
    alone = {alias for alias, original in ASYNCIO_ONLY_METHODS.items() if original in public_methods(ours)}
    found += [f"{name}.{each}: only for threads" for each in public_methods(ours) - public_methods(theirs)]
    found += [f"{name}.{each}: only for asyncio" for each in public_methods(theirs) - public_methods(ours) - alone]
    found += [f"{name}.{each}: no such alias" for each in alone - public_methods(theirs)]

    for each in [*sorted(public_methods(ours) & public_methods(theirs)), "__init__"]:
        mine, yours = Method.of(ours, each), Method.of(theirs, each)
        origin = written_in(theirs, each)
        more = ASYNCIO_ONLY_PARAMETERS.get((origin, each), set())
        stripped = tuple(p for p in yours.parameters if p not in more)
        found += [f"{name}.{each}: lacks {parameter}" for parameter in more - set(yours.parameters)]
        if mine.kind != yours.kind:
            found.append(f"{name}.{each}: {mine.kind} and {yours.kind}")
        expected, got = (mine.parameters, mine.returns), (stripped, yours.returns)
        if expected != got:
            found.append(f"{name}.{each}: {expected} and {got}")
        if mine.coroutine:
            found.append(f"{name}.{each}: a coroutine for threads")
        plain = each in PLAIN or (each.startswith("get_") and name == "Redisson") or mine.kind == "property"
        plain = plain and each not in AWAITED_PROPERTIES
        if yours.coroutine == (plain or each == "__init__"):
            found.append(f"{name}.{each}: {'a coroutine' if yours.coroutine else 'a plain call'} for asyncio")
        theirs_alone = {parameter.split(":")[0] for parameter in more}
        if not each.startswith("_") and not mine.doc:
            found.append(f"{name}.{each}: no docstring")
        if same_words(mine.doc) != same_words(without_parameters(yours.doc, theirs_alone)):
            found.append(f"{name}.{each}: the docstrings differ")

    expected_dunders = {DUNDERS.get(each, each) for each in written_methods(ours)}
    expected_dunders |= ASYNCIO_ONLY_DUNDERS.get(name, set())
    if expected_dunders != written_methods(theirs):
        found.append(f"{name}: {sorted(expected_dunders ^ written_methods(theirs))}")
    for plain_name, awaited in DUNDERS.items():
        if (
            plain_name in written_methods(ours)
            and awaited in written_methods(theirs)
            and not Method.of(theirs, awaited).coroutine
        ):
            found.append(f"{name}.{awaited}: a plain call")
    if same_words(ours.__doc__ or "") != same_words(theirs.__doc__ or "").replace(
        ASYNCIO_ONLY_TEXT.get(name, "\0"), ""
    ):
        found.append(f"{name}: the docstrings differ")
    return found


def test_both_packages_have_the_same_names():
    assert pyredisson.__all__ == pyredisson.asyncio.__all__
    assert pyredisson.__version__ == pyredisson.asyncio.__version__


@pytest.mark.parametrize("package", [pyredisson, pyredisson.asyncio], ids=lambda package: package.__name__)
def test_every_name_is_there_and_documented(package):
    for name in package.__all__:
        value = getattr(package, name)
        assert name.startswith("__") or value.__doc__, name


@pytest.mark.parametrize(("name", "ours", "theirs"), twins(), ids=[name for name, _, _ in twins()])
def test_twins_are_alike(name, ours, theirs):
    assert differences(name, ours, theirs) == []


def test_what_does_no_work_of_its_own_is_shared():
    twice = {name for name, _, _ in twins()}
    assert {"Redisson", "Lock", "Hold"} <= twice
    for name in set(pyredisson.__all__) - twice - {"current_thread_id"}:
        assert getattr(pyredisson, name) is getattr(pyredisson.asyncio, name), name


def test_current_thread_id_is_called_alike():
    ours, theirs = pyredisson.current_thread_id, pyredisson.asyncio.current_thread_id
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert not inspect.iscoroutinefunction(theirs)
    assert ours is not theirs
