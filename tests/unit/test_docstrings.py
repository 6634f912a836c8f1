"""Each public method of both façades has an example in its docstring, and the example runs."""

import ast
import asyncio
import inspect
import itertools
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from sphinx.ext import napoleon

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._core.runtime import run
from tests.examples import reference
from tests.forms import ended

FORMS = {"threads": pyredisson, "asyncio": pyredisson.asyncio}

#: Longer examples belong on a page.
LINES = 6

_numbers = itertools.count()


def examples_in(docstring: str) -> list[str]:
    """The code of each ``Example::`` block, as a user would type it."""
    found = []
    for block in re.findall(r"^ *Example::\n\n((?:(?: {4,}.*)?\n)+)", inspect.cleandoc(docstring) + "\n", re.MULTILINE):
        code, _, _ = textwrap.dedent(block).partition("\n\n")
        found.append(code.strip("\n"))
    return found


def documented(package: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Every class and public method of the package that is written for it: the class, the name, the docstring."""
    for name in package.__all__:
        value = getattr(package, name)
        if not inspect.isclass(value) or value.__module__ != package.__name__:
            continue
        yield name, "", value.__doc__ or ""
        for method in sorted(each for each in dir(value) if not each.startswith("_")):
            found = inspect.getattr_static(value, method)
            if not isinstance(found, property):
                yield name, method, inspect.getdoc(getattr(value, method)) or ""


def form_of(package: ModuleType) -> str:
    return next(form for form, each in FORMS.items() if each is package)


def methods(form: str) -> list[tuple[str, str, str]]:
    return list(documented(FORMS[form]))


def names_for(owner: str, package: Any, clients: list[Any]) -> dict[str, Any]:
    """What the examples of a class may use without making it: fresh objects, named for what they are."""
    client, number = clients[0], next(_numbers)
    make = {
        "FairLock": client.get_fair_lock,
        "FencedLock": client.get_fenced_lock,
        "NonReentrantFairLock": client.get_non_reentrant_fair_lock,
        "NonReentrantLock": client.get_non_reentrant_lock,
        "SpinLock": client.get_spin_lock,
        "TokenLock": client.get_token_lock,
        "RedLock": lambda name: package.RedLock(*[each.get_lock(name) for each in clients]),
        "MultiLock": lambda name: package.MultiLock(client.get_lock(name), client.get_lock(f"{name}:2")),
    }.get(owner, client.get_lock)
    return {
        **{name: getattr(package, name) for name in package.__all__},
        "client": client,
        "clients": clients,
        "lock": make(f"lock:{number}"),
        "prices": client.get_read_write_lock(f"prices:{number}"),
        "semaphore": client.get_bounded_semaphore(f"semaphore:{number}", 3)
        if owner == "BoundedSemaphore"
        else client.get_semaphore(f"semaphore:{number}", permits=3),
        "permits": client.get_permit_expirable_semaphore(f"permits:{number}", permits=3),
        "ready": client.get_event(f"ready:{number}"),
        "condition": client.get_condition(f"condition:{number}"),
        "orders": ["book"],
        "barrier": client.get_barrier(f"barrier:{number}", 1),
        "latch": client.get_count_down_latch(f"latch:{number}"),
        "election": client.get_leader_election(f"election:{number}"),
        "lead": package.Term.wait,
    }


def private(code: str) -> str:
    """The example with names of its own: in Redis, those of another example may be of another kind."""
    return re.sub(r"(get_\w+\(\"|synchronized\(\")", rf"\g<1>{next(_numbers)}:", code)


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    servers = [pyredisson.Redisson.embedded() for _ in range(3)]
    yield [str(server.url) for server in servers]
    for server in servers:
        server.close()


CONFIG = Config(quorum_node_timeout=2, quorum_retry_timeout=60)


def examples(form: str, owner: str) -> list[tuple[str, str]]:
    """The examples of a class, each with the method that it belongs to."""
    return [(name, code) for of, name, doc in methods(form) if of == owner for code in examples_in(doc)]


def owners(form: str) -> list[str]:
    return [owner for owner, method, _ in methods(form) if not method and examples(form, owner)]


@pytest.mark.parametrize(("form", "owner"), [(form, owner) for form in FORMS for owner in owners(form)])
def test_the_examples_of_a_class_run(form, owner, urls):
    package = FORMS[form]

    async def main():
        clients = [package.Redisson.from_url(url, config=CONFIG) for url in urls]
        for method, code in examples(form, owner):
            compiled = compile(private(code), f"{owner}.{method}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await ended(eval(compiled, names_for(owner, package, clients)))
        for client in clients:
            await ended(client.close())

    (run if form == "threads" else asyncio.run)(main())


@pytest.mark.parametrize("form", FORMS)
def test_every_class_and_public_method_has_a_short_example(form):
    without = [f"{owner}.{method}" for owner, method, doc in methods(form) if not examples_in(doc)]
    assert without == []
    for owner, method, doc in methods(form):
        for code in examples_in(doc):
            assert len(code.splitlines()) <= LINES, f"{owner}.{method}"


# ---- the reference ---------------------------------------------------------------------------------------------------


def in_the_reference() -> Iterator[tuple[str, str]]:
    """Each class, method and function that the reference shows, and its docstring."""
    for name in re.findall(r"^\.\. auto(?:class|exception|function):: ([\w.]+)", reference(), re.MULTILINE):
        value = pkgutil.resolve_name(name)
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", inspect.getdoc(member) or ""


def fields_of(docstring: str) -> set[str]:
    """The names of the fields that Sphinx reads from a docstring."""
    text = str(napoleon.GoogleDocstring(docstring, napoleon.Config(napoleon_use_ivar=True)))
    return set(re.findall(r"^:(\w+)", text, re.MULTILINE))


def test_no_text_before_a_colon_is_shown_as_the_type_of_a_result():
    texts = dict(in_the_reference())
    assert len(texts) > 150
    assert [name for name, docstring in texts.items() if "rtype" in fields_of(docstring)] == []
    assert fields_of("Do it.\n\nReturns:\n    Whether it was done. ``False``: it was not.") == {"returns", "rtype"}
