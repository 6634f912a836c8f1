"""The clients in memory of ``pyredisson.testing.plugin``, in pytest runs of its users: threads, tasks and workers."""

import os
import subprocess

import pytest

from tests.frameworks.common import require

pytest_plugins = ["pytester"]

TESTS = """
import asyncio
import threading

import pytest
from pyredisson import Config, LockLostError, LockTimeoutError, Redisson
from pyredisson.testing import take_away


def test_clients_of_both_forms_exclude_each_other(in_memory_redisson, in_memory_async_redisson):
    async def attempt():
        return await in_memory_async_redisson.get_lock("orders").try_lock()

    with in_memory_redisson.get_lock("orders").hold():
        assert asyncio.run(attempt()) is False


@pytest.mark.parametrize("number", range(4))
def test_each_test_has_a_server_of_its_own(in_memory_redisson, number):
    assert in_memory_redisson.get_fenced_lock("orders").lock_and_get_token() == 1  # and leaves it held


def test_a_waiter_is_notified(in_memory_redisson, in_memory_server):
    import fakeredis

    acquired = threading.Event()

    def wait():
        other = Redisson(fakeredis.FakeRedis(server=in_memory_server))
        with other, other.get_lock("orders").hold(wait_time=10):
            acquired.set()

    thread = threading.Thread(target=wait)
    with in_memory_redisson.get_lock("orders").hold():
        thread.start()
        assert not acquired.wait(0.1)
    assert acquired.wait(10)
    thread.join()


def test_a_lock_is_taken_away(in_memory_redisson):
    lock = in_memory_redisson.get_lock("orders")
    with pytest.raises(LockLostError), lock.hold() as lease:
        take_away(lock)
        lease.ensure_held()


@pytest.fixture
def redisson_config():
    return Config(lock_watchdog_timeout=7)


def test_the_settings_are_those_of_the_fixture(in_memory_redisson, in_memory_async_redisson):
    assert in_memory_redisson.config.lock_watchdog_timeout == in_memory_async_redisson.config.lock_watchdog_timeout == 7


@pytest.mark.asyncio
async def test_in_a_task(in_memory_async_redisson):
    async with in_memory_async_redisson.get_lock("orders").hold() as lease:
        assert lease.remaining() > 1
        waiter = asyncio.create_task(in_memory_async_redisson.get_lock("orders").try_lock(wait_time=10))
        await asyncio.sleep(0.05)
        assert not waiter.done()
    assert await waiter
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_clients_in_memory(pytester, monkeypatch, arguments):
    require("xdist", "pytest_asyncio", "fakeredis")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -W error")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ["pyredisson.testing.plugin"]\n')
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess(*arguments, timeout=100).assert_outcomes(passed=9)


def test_pytest_finds_the_fixtures_by_itself(environments, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "def test_it(redisson, in_memory_redisson, lock_name):\n"
        "    with redisson.get_lock(lock_name), in_memory_redisson.get_lock(lock_name): pass\n"
    )
    python = environments.get('"pyredisson[testing]"') / "python"
    run = [python, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": "", "PYTEST_ADDOPTS": ""}
    for options, passes in (([], True), (["-p", "no:pyredisson"], False)):
        done = subprocess.run([*run, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode == 0) is passes, done.stdout
