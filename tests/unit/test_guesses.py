"""What people guess who know other libraries: the error says what to write instead."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from click.testing import CliRunner

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._tools.web import web
from tests.command_line import run_python


@pytest.fixture(params=[pyredisson, pyredisson.asyncio], ids=["threads", "asyncio"])
def client(request: pytest.FixtureRequest) -> Any:
    """A client that never connects, of each form."""
    return request.param.Redisson.from_url("redis://127.0.0.1:1")


@pytest.mark.parametrize(
    ("method", "wrong", "instead"),
    [
        ("get_lock", "timeout", r"pass it where the lock is acquired: hold\(wait_time=\.\.\.\)"),
        ("get_lock", "blocking_timeout", r"hold\(wait_time="),
        ("get_lock", "expire", r"hold\(lease_time="),
        ("get_fair_lock", "ttl", r"hold\(lease_time="),
        ("get_fenced_lock", "lease_time", r"hold\(lease_time="),
        ("get_spin_lock", "wait_time", r"hold\(wait_time="),
        ("get_token_lock", "timeout", r"hold\(wait_time="),
        ("get_read_write_lock", "timeout", r"hold\(wait_time="),
        ("get_semaphore", "value", "use permits"),
        ("get_semaphore", "limit", "use permits"),
        ("get_permit_expirable_semaphore", "size", "use permits"),
        ("get_lock", "colour", "it takes name and owner"),
    ],
)
def test_a_keyword_of_a_handle(client, method, wrong, instead):
    with pytest.raises(TypeError, match=rf"^Redisson\.{method}\(\) has no keyword argument '{wrong}': .*{instead}"):
        getattr(client, method)("orders", **{wrong: 5})
    assert "unknown" not in inspect.signature(getattr(client, method)).parameters


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ("lease_time", "lock_watchdog_timeout is the lease of what is renewed"),
        ("ttl", r"hold\(lease_time=\.\.\.\) sets one that is not"),
        ("watchdog_timeout", "use lock_watchdog_timeout"),
        ("url", r"Redisson\.from_url\(url, config="),
        ("timeouts", r"did you mean timeout\?"),
        ("zzz", "see the page on Config"),
    ],
)
def test_a_setting(wrong, instead):
    with pytest.raises(TypeError, match=f"^Config has no setting '{wrong}': .*{instead}"):
        Config(**{wrong: 5})


@pytest.mark.parametrize(
    ("path", "wrong", "instead"),
    [
        ("", "lock", r"use get_lock\(name\)"),
        ("", "from_client", r"use Redisson\(client\)"),
        ("get_read_write_lock", "acquire", r"use read_lock\(\) or write_lock\(\)"),
        ("get_lock", "owned", "use is_held_by_current_thread"),
        ("get_fair_lock", "reacquire", r"use extend\(lease_time\)"),
        ("get_semaphore", "value", r"use available_permits\(\)"),
        ("get_leader_election", "is_leader", r"election\.leader\(\)"),
        ("get_lock", "colour", "object has no attribute 'colour'$"),
    ],
)
def test_an_attribute(client, path, wrong, instead):
    thing = getattr(client, path)("orders") if path else client
    with pytest.raises(AttributeError, match=f"object has no attribute '{wrong}'.*{instead}|{instead}") as refusal:
        getattr(thing, wrong)
    assert not hasattr(thing, wrong)
    assert (refusal.value.name, refusal.value.obj) == (wrong, thing)


def test_a_read_write_lock_is_entered_by_one_of_its_sides(client):
    lock = client.get_read_write_lock("orders")

    async def enter() -> None:
        async with lock:
            pass

    def enter_here() -> None:
        with lock:
            pass

    is_async = hasattr(type(lock), "__aenter__")
    word = "async with" if is_async else "with"
    with pytest.raises(TypeError, match=rf"has two sides: use {word} lock\.read_lock\(\): or lock\.write_lock\(\)"):
        asyncio.run(enter()) if is_async else enter_here()


def test_a_class_of_the_other_form():
    with pytest.raises(AttributeError, match=r"use pyredisson\.asyncio\.Redisson$"):
        _ = pyredisson.AsyncRedisson
    with pytest.raises(AttributeError, match=r"no attribute 'AsyncNothing'$"):
        _ = pyredisson.AsyncNothing


def test_a_list_of_locks_is_to_be_unpacked(client):
    with pytest.raises(TypeError, match="takes locks, not a list of them: unpack it"):
        client.get_multi_lock([client.get_lock("a"), client.get_lock("b")])


def test_a_handle_made_by_hand_names_the_public_class():
    class Mine(pyredisson.Lock):
        pass

    with pytest.raises(TypeError, match=r"^a Lock is made by a client: .*client\.get_lock\('orders'\)$"):
        Mine("orders")


def test_the_pattern_of_a_search_is_a_text():
    with pyredisson.Redisson.from_url("redis://127.0.0.1:1") as client, pytest.raises(TypeError, match="must be a str"):
        next(client.find_locks(5))


def test_the_port_of_the_web_page():
    found = CliRunner().invoke(web, ["--port", "8000"])
    assert found.exit_code == 2
    assert "there is no option --port: use --listen 127.0.0.1:8000" in found.output
    assert "--port" not in CliRunner().invoke(web, ["--help"]).output


EXTRAS = {
    "pyredisson.integrations.fastapi": ("fastapi", "starlette"),
    "pyredisson.integrations.django": ("django", "django"),
    "pyredisson.integrations.django_models": ("django", "django"),
    "pyredisson.integrations.celery": ("celery", "celery"),
    "pyredisson.integrations.rq": ("rq", "rq"),
    "pyredisson.integrations.dramatiq": ("dramatiq", "dramatiq"),
    "pyredisson.integrations.sqlalchemy": ("sqlalchemy", "sqlalchemy"),
    "pyredisson.fencing.sqlalchemy": ("sqlalchemy", "sqlalchemy"),
    "pyredisson.observe.prometheus": ("prometheus", "prometheus_client"),
    "pyredisson.observe.opentelemetry": ("opentelemetry", "opentelemetry"),
    "pyredisson.testing.plugin": ("testing", "pytest"),
}


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_extra_is_named(module):
    extra, package = EXTRAS[module]
    program = f"import sys; sys.modules[{package!r}] = None\nimport {module}"
    done = run_python(program, exit_code=1)
    assert f'is not installed: pip install "pyredisson[{extra}]"' in done.stderr.splitlines()[-1]


def test_the_listener_of_opentelemetry_needs_no_other_extra():
    program = "import sys; sys.modules['prometheus_client'] = None\nimport pyredisson.observe.opentelemetry"
    run_python(program)
