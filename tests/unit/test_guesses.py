"""What people guess who know other libraries: the error says what to write instead."""

import asyncio
import inspect
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from click.testing import CliRunner

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._core.deadline import wait_seconds
from pyredisson._shared.arguments import wait_of
from pyredisson._tools.web import web
from tests.command_line import run_python


@pytest.fixture
def client(form: Any) -> Any:
    """A client that never connects, of each form."""
    return form.Redisson.from_url("redis://127.0.0.1:1")


def answer(result: Any) -> Any:
    """What a call returned, in either form."""
    return asyncio.run(result) if inspect.iscoroutine(result) else result


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
        ("get_bounded_semaphore", "permits", "use value"),
        ("get_bounded_semaphore", "limit", "use value"),
        ("get_lock", "sleep", r"get_spin_lock\(name, backoff\)"),
        ("get_lock", "blocking", r"acquire\(blocking=False\)"),
        ("get_lock", "thread_local", r"owner=client\.new_owner\(\)"),
        ("get_lock", "auto_renewal", "without a lease_time is renewed"),
        ("get_lock", "colour", "it takes name and owner"),
        ("get_leader_election", "timeout", r"use term\(wait_time=\.\.\.\)"),
        ("get_leader_election", "ttl", r"lock_watchdog_timeout="),
        ("get_leader_election", "colour", "it takes name"),
        ("run_once", "timeout", "it takes name and at_most and at_least"),
        ("run_once", "lease_time", "use at_most"),
        ("run_once", "ttl", "use at_most"),
        ("synchronized", "timeout", "use wait_time"),
        ("synchronized", "ttl", "use lease_time"),
        ("get_lock", "key", "use name"),
        ("get_lock", "leaseTime", r"hold\(lease_time="),
        ("get_multi_lock", "lease_time", r"hold\(lease_time="),
        ("get_multi_lock", "quorum", r"use MultiLock\(\*locks, quorum="),
        ("get_multi_lock", "colour", r"it takes \*locks$"),
        ("get_red_lock", "masters", r"pass the locks by position, as in \(\*locks\)"),
        ("get_event", "timeout", r"pass it where it waits: wait\(timeout="),
        ("get_condition", "wait_time", r"wait\(timeout="),
        ("get_barrier", "n", "use parties"),
        ("get_barrier", "wait_time", "use timeout"),
        ("get_count_down_latch", "count", r"use try_set_count\(n\)"),
        ("get_count_down_latch", "timeout", r"wait\(timeout="),
        ("get_bounded_semaphore", "timeout", r"acquire\(timeout="),
        ("get_token_lock", "retry_delay", "use backoff"),
        ("get_spin_lock", "retries", "use tries"),
        ("run_once", "lock_at_least_for", "use at_least"),
    ],
)
def test_a_keyword_of_a_handle(client, method, wrong, instead):
    with pytest.raises(TypeError, match=rf"^Redisson\.{method}\(\) has no keyword argument '{wrong}': .*{instead}"):
        getattr(client, method)("orders", **{wrong: 5})
    assert "unknown" not in inspect.signature(getattr(client, method)).parameters


@pytest.mark.parametrize(
    ("handle", "method", "wrong", "instead"),
    [
        ("get_lock", "extend", "additional_time", "use lease_time"),
        ("get_lock", "extend", "replace_ttl", "never shortened"),
        ("get_lock", "acquire", "blocking_timeout", "use timeout"),
        ("get_lock", "acquire", "token", r"owner=client\.new_owner\(\)"),
        ("get_lock", "lock", "timeout", r"it takes lease_time; try_lock\(\) and hold\(\) take wait_time"),
        ("get_lock", "try_lock", "waitTime", "use wait_time"),
        ("get_lock", "try_lock", "unit", "times are in seconds"),
        ("get_lock", "hold", "blocking", "with wait_time=0"),
        ("get_leader_election", "term", "timeout", "use wait_time"),
        ("get_leader_election", "term", "lease_time", "lock_watchdog_timeout="),
        ("get_leader_election", "run", "target", "use callback"),
        ("get_leader_election", "start", "func", "use callback"),
        ("get_semaphore", "release", "n", "use permits"),
        ("get_semaphore", "acquire", "blocking", r"try_acquire\(\) does not wait"),
        ("get_semaphore", "try_set_permits", "permits", "use n"),
        ("get_semaphore", "expire", "ttl", "use seconds"),
        ("get_permit_expirable_semaphore", "update_lease_time", "id", "use permit_id"),
        ("get_permit_expirable_semaphore", "hold", "permits", r"acquire\(permits=n\)"),
        ("get_bounded_semaphore", "acquire", "wait_time", "use timeout"),
        ("get_bounded_semaphore", "release", "permits", "use n"),
        ("get_count_down_latch", "wait", "wait_time", "use timeout"),
        ("get_count_down_latch", "try_set_count", "count", "use n"),
        ("get_event", "wait", "wait_time", "use timeout"),
        ("get_condition", "wait", "wait_time", "use timeout"),
        ("get_condition", "acquire", "wait_time", "use timeout"),
        ("get_condition", "wait_for", "function", "use predicate"),
        ("get_barrier", "wait", "wait_time", "use timeout"),
    ],
)
def test_a_keyword_of_a_method(client, handle, method, wrong, instead):
    made = client.get_barrier("orders", 2) if handle == "get_barrier" else getattr(client, handle)("orders")
    called = getattr(made, method)
    with pytest.raises(TypeError, match=rf"^\w+\.{method}\(\) has no keyword argument '{wrong}': .*{instead}"):
        answer(called(**{wrong: 5}))
    assert "unknown" not in inspect.signature(called).parameters


def test_a_keyword_of_a_lease_and_of_a_term(form):
    """They are made by blocks; the methods look at keywords before anything else."""
    for made, method, wrong, instead in (
        (form.Lease, "extend", "additional_time", "use lease_time"),
        (form.Term, "wait", "timeout", "use seconds"),
        (form.Campaign, "stop", "wait_time", "use timeout"),
    ):
        with pytest.raises(TypeError, match=rf"\.{method}\(\) has no keyword argument '{wrong}': {instead}$"):
            answer(getattr(object.__new__(made), method)(**{wrong: 5}))


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
        ("", "getLock", "use get_lock$"),
        ("", "get_rlock", r"use get_lock\(name\), which is reentrant"),
        ("get_lock", "tryLock", "use try_lock$"),
        ("get_lock", "isHeldByCurrentThread", "use is_held_by_current_thread$"),
        ("get_read_write_lock", "readLock", "use read_lock$"),
        ("get_leader_election", "campaign", r"use start\(callback\)"),
        ("get_lock", "colour", "object has no attribute 'colour'$"),
        ("", "shutdown", r"use close\(\)"),
        ("", "isShutdown", "raises ClientClosedError"),
        ("", "redlock", r"use get_red_lock\(\*locks\)"),
        ("", "rwlock", r"use get_read_write_lock\(name\)"),
        ("", "barrier", "use get_barrier$"),
        ("", "event", "use get_event$"),
        ("", "condition", "use get_condition$"),
        ("", "latch", r"use get_count_down_latch\(name\)"),
        ("", "getConfig", "use config$"),
        ("", "getMap", "no other objects"),
        ("get_lock", "lockInterruptibly", r"use lock\(\)"),
        ("get_lock", "tryLockAsync", r"use pyredisson\.asyncio"),
        ("get_lock", "newCondition", r"use get_condition\(lock\)"),
        ("get_lock", "getName", "use name$"),
        ("get_lock", "do_release", r"use release\(\)"),
        ("get_lock", "lock_and_get_token", r"use get_fenced_lock\(name\)"),
        ("get_read_write_lock", "gen_wlock", r"use write_lock\(\)"),
        ("get_semaphore", "locked", r"use available_permits\(\) == 0"),
        ("get_semaphore", "reducePermits", r"use add_permits\(-n\)"),
        ("get_permit_expirable_semaphore", "renew", r"use update_lease_time\(permit_id, lease_time\)"),
        ("get_bounded_semaphore", "tryAcquire", r"use acquire\(blocking=False\)"),
        ("get_count_down_latch", "await_", r"use wait\(timeout\)"),
        ("get_count_down_latch", "count", "use get_count$"),
        ("get_event", "isSet", "use is_set$"),
        ("get_condition", "signalAll", r"use notify_all\(\)"),
        ("get_leader_election", "getLeader", "use leader$"),
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


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("from_client", r": use Redisson\(client\)$"),
        ("from_redis", r": use Redisson\(client\)$"),
        ("from_pool", r": use Redisson\(redis\.Redis\(connection_pool=pool\)\)$"),
        ("from_config", r": use from_url\(url, config=config\)$"),
        ("lock", r": use get_lock\(name\)$"),
        ("colour", "'colour'$"),
    ],
)
def test_an_attribute_of_the_class(form, name, instead):
    with pytest.raises(AttributeError, match=f"^type object 'Redisson' has no attribute '{name}'.*{instead}|{instead}"):
        getattr(form.Redisson, name)
    assert not hasattr(form.Redisson, name)


def test_settings_by_position(form):
    """The signatures do not show that this is looked at."""
    made = form.Redisson
    for call, shown in (
        (lambda: made.from_url("redis://localhost", Config()), r"Redisson\.from_url\(url, config=Config\(\.\.\.\)\)"),
        (lambda: made.from_env(Config()), r"Redisson\.from_env\(config="),
        (lambda: made.embedded(Config()), r"Redisson\.embedded\(config="),
        (lambda: made(None, Config()), r"Redisson\(redis, config="),
        (lambda: Config(15), r"Config\(lock_watchdog_timeout=15, \.\.\.\)"),
    ):
        with pytest.raises(TypeError, match=rf"^settings are passed by name: {shown}"):
            call()
    assert list(inspect.signature(made).parameters) == ["redis", "config"]
    assert list(inspect.signature(made.from_url).parameters) == ["url", "config", "redis_kwargs"]


def test_a_decimal_is_no_time():
    with pytest.raises(TypeError, match=r"not Decimal: pass float\(wait_time\)$"):
        wait_seconds(Decimal("0.25"))  # type: ignore[arg-type]
    for wrong in (Decimal("0.25"), "1"):
        with pytest.raises(TypeError, match=f"^timeout must be a number of seconds, .*, not {type(wrong).__name__}$"):
            wait_of(True, wrong)  # type: ignore[arg-type]
    assert wait_of(True, Fraction(1, 4)) == wait_seconds(Fraction(1, 4)) == 0.25


def test_a_bounded_semaphore_has_a_permit(client):
    with pytest.raises(ValueError, match=r"^value must be at least 1"):
        client.get_bounded_semaphore("seats", value=0)


def test_a_long_value_is_cut_in_a_message(client):
    lock, long = client.get_lock("orders"), "x" * 5000
    for call in (
        lambda: lock.hold(on_loss=long),
        lambda: Config(on_lock_lost=long),  # type: ignore[arg-type]
        lambda: Config(sharded_subscription_mode=long),  # type: ignore[arg-type]
        lambda: client.synchronized("orders", kind=long),
        lambda: client.synchronized("orders", when_busy=long),
    ):
        with pytest.raises((TypeError, ValueError)) as refusal:
            call()
        assert "xxxx…" in str(refusal.value)
        assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("name", "instead"), [("Redlock", "RedLock"), ("RedisLock", "Redisson"), ("LockNotAcquired", "LockTimeoutError")]
)
def test_a_name_of_another_library(name, instead):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use pyredisson.{instead}$"):
        getattr(pyredisson, name)


def test_a_class_of_the_other_form(form):
    with pytest.raises(AttributeError, match=r"use pyredisson\.asyncio\.Redisson$"):
        _ = form.AsyncRedisson
    with pytest.raises(AttributeError, match=r"no attribute 'AsyncNothing'$"):
        _ = form.AsyncNothing


def test_a_list_of_locks_is_to_be_unpacked(client):
    with pytest.raises(TypeError, match="takes locks, not a list of them: unpack it"):
        client.get_multi_lock([client.get_lock("a"), client.get_lock("b")])


def test_a_function_that_cannot_be_called_as_it_will_be(client):
    async def later(): ...

    class Backoff:
        def delays(self, first):
            return [first]

    condition = client.get_condition("orders")
    for wrong, reason in ((5, "must be a function, called without arguments, not 5"), (len, "is called without")):
        with pytest.raises(TypeError, match=f"^action {reason}"):
            client.get_barrier("start", 2, wrong)
        with pytest.raises(TypeError, match=f"^predicate {reason}"):
            answer(condition.wait_for(wrong))
    with pytest.raises(TypeError, match="predicate must not be a coroutine function, as"):
        answer(condition.wait_for(later))
    with pytest.raises(TypeError, match=r"^backoff\.delays is called without arguments: .* takes \(first\)"):
        client.get_spin_lock("orders", Backoff())


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
