"""``pyredisson.testing.plugin`` in pytest runs of its users: what the page shows, and how asynchronous tests run."""

import re

import pytest

import pyredisson
import pyredisson.asyncio
import pyredisson.testing.plugin
from tests.examples import ROOT, blocks_of

pytest_plugins = ["pytester"]

PAGE = ROOT / "docs" / "howto" / "testing.md"
CONFTEST = 'pytest_plugins = ["pyredisson.testing.plugin"]\n'

ASYNC_TEST = """
import pytest
from pyredisson.testing import lose_next_reply, partition, take_away

{before}

{mark}
async def test_one(async_redisson, lock_name{more}):
    lock = async_redisson.get_lock(lock_name)
    reply = lose_next_reply(async_redisson)
    async with lock.hold() as lease:
        assert reply.happened
        assert not lease.lost
    with partition(async_redisson):
        pass
    await lock.lock()
    await take_away(lock)
    await async_redisson.get_lock(lock_name + "-2").lock()  # The client is closed while it holds this one.

{mark}
async def test_another(async_redisson, async_redisson_factory, lock_name{more}):
    async with async_redisson.get_lock(lock_name):
        assert not await async_redisson_factory().get_lock(lock_name).try_lock()
"""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    """Keep the settings of the run that this test is a part of from the runs that it starts."""
    pytester.makeconftest(CONFTEST)  # What is installed here may be an older checkout.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -W error")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    """Load the library: what a run in this process loads is forgotten, and would be loaded again by the next one."""
    for package in (pyredisson, pyredisson.asyncio):
        for name in package.__all__:
            getattr(package, name)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*arguments, timeout=100)


def run_here(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run in this process, which is faster."""
    return pytester.runpytest_inprocess("-p", "no:asyncio", "-p", "no:anyio", *arguments)


def test_the_tests_of_the_page_pass(pytester):
    files = {}
    for block in blocks_of(PAGE):
        if found := re.match(r"# (\w+)\.py\n", block.text):
            files[found[1]] = block.text
    assert len(files) >= 7
    pytester.makepyfile(**files)
    run_here(pytester).assert_outcomes(passed=sum(text.count("def test_") for text in files.values()))


def test_a_client_is_closed_after_its_test_and_leaves_the_locks_of_others(pytester):
    pytester.makepyfile(
        """
        import pytest
        from pyredisson import ClientClosedError

        kept = []

        @pytest.fixture(scope="session")
        def holder(redisson_server):
            from pyredisson import Redisson
            with Redisson.from_url(redisson_server.url) as client:
                client.get_lock("theirs").lock()
                yield client

        def test_first(redisson, redisson_factory, async_redisson, lock_name, holder):
            kept.extend([redisson, redisson_factory(), async_redisson, lock_name])

        def test_second(redisson, lock_name, holder):
            *clients, name = kept
            for client in clients:
                with pytest.raises(ClientClosedError):
                    client.get_lock("any")
            assert name != lock_name
            assert redisson not in clients
            assert redisson.get_lock("theirs").is_locked()
        """
    )
    run_here(pytester).assert_outcomes(passed=2)


def test_settings_are_changed_by_overriding_a_fixture(pytester):
    pytester.makepyfile(
        """
        import pytest
        from pyredisson import Config

        @pytest.fixture
        def redisson_config():
            return Config(lock_watchdog_timeout=7)

        def test_it(redisson, async_redisson, redisson_factory):
            assert redisson.config.lock_watchdog_timeout == async_redisson.config.lock_watchdog_timeout == 7
            assert redisson_factory(Config()).config == Config()
        """
    )
    run_here(pytester).assert_outcomes(passed=1)


def test_a_lock_name_is_unique_and_says_which_test_it_is_of(pytester):
    pytester.makepyfile(
        """
        import pytest

        names = set()

        @pytest.mark.parametrize("text", ["{a}", "b c", "ü" * 200, "x" * 200])
        def test_it(lock_name, redisson, text):
            assert lock_name.startswith("test-it-")
            assert len(lock_name) < 120
            assert lock_name.isascii() and not set("{} ") & set(lock_name)
            names.add(lock_name)
            with redisson.get_lock(lock_name):
                pass

        def test_count():
            assert len(names) == 4
        """
    )
    run_here(pytester).assert_outcomes(passed=5)


# ---- asyncio ---------------------------------------------------------------------------------------------------------


def test_asyncio_without_any_plugin(pytester):
    in_loop = """
import asyncio
import functools

def in_loop(test):
    @functools.wraps(test)
    def run(**fixtures):
        asyncio.run(test(**fixtures))
        asyncio.run(test(**{**fixtures, "lock_name": "another"}))  # In a second loop the client starts afresh.

    return run
"""
    pytester.makepyfile(ASYNC_TEST.format(before=in_loop, mark="@in_loop", more=""))
    run(pytester, "-p", "no:asyncio", "-p", "no:anyio").assert_outcomes(passed=2)


def test_asyncio_with_pytest_asyncio(pytester):
    pytest.importorskip("pytest_asyncio")
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(ASYNC_TEST.format(before="", mark="", more=""))
    run(pytester, "-p", "no:anyio").assert_outcomes(passed=2)


def test_asyncio_with_anyio_whose_loop_serves_all_tests(pytester):
    pytest.importorskip("anyio")
    pytester.makeconftest(
        f"""
{CONFTEST}
import pytest

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="session")
async def keeps_the_loop(anyio_backend):
    yield
"""
    )
    pytester.makepyfile(ASYNC_TEST.format(before="", mark="@pytest.mark.anyio", more=", keeps_the_loop"))
    run(pytester, "-p", "no:asyncio").assert_outcomes(passed=2)
