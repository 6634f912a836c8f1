"""redis-py's own tests of its ``Lock``, as they are published, against the drop-in ``pyredisson.compat.redis_py``.

They come with redis-py's source distribution, and are fetched by ``pip`` once for each run.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import subprocess
import sys
import tarfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from pyredisson.compat import redis_py
from pyredisson.compat.redis_py import asyncio as redis_py_asyncio
from tests.examples import ROOT

#: That of fetching, mostly: pip makes what it needs for it, which takes a busy machine a while.
pytestmark = pytest.mark.timeout(400)

#: The newest; its source distribution has the tests.
RELEASE = "redis==8.1.0"

#: Their tests that fail, and why. The page for those who come from redis-py says the same.
NO_END = "a lock without a timeout has a TTL here, and is renewed: nobody's crash locks others out for ever"
CLOCK = "it replaces the clock in redis-py's module, which is not read here; how long we wait has tests of our own"
DIFFERENT: dict[str, str] = {
    "test_blocking_timeout": CLOCK,
    "test_lock": NO_END,
    "test_lock_token": NO_END,
    "test_lock_token_thread_local_false": NO_END,
}
#: This one of asyncio's does not replace the clock.
DIFFERENT_FOR_THREADS = {**DIFFERENT, "test_context_manager_blocking_timeout": CLOCK}

#: How many there are.
FOR_THREADS, FOR_ASYNCIO = 32, 30


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with redis-py's tests."""
    folder = tmp_path_factory.mktemp("redis-py")
    download = ["pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    fetch = [sys.executable, "-m", *download, "-d", str(folder), RELEASE]
    try:
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=300)
        error = done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired:
        error = "it takes too long"
    if error:
        reason = f"the tests of {RELEASE} could not be fetched: {error.strip().splitlines()[-1]}"
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with tarfile.open(next(folder.glob("redis-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data") if sys.version_info >= (3, 12) else archive.extractall(folder)
    return next(folder.glob("redis-*/tests"))


@contextmanager
def standing_in(original: types.ModuleType, ours: type) -> Iterator[None]:
    """``from redis.lock import Lock`` gets our class."""
    theirs = original.Lock
    original.Lock = ours
    try:
        yield
    finally:
        original.Lock = theirs


class AnyMark:
    """Their marks say which servers a test is for; ours is one of those."""

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return lambda marked: marked


def module_with_tests(path: Path, **modules: Any) -> Any:
    """The module with the tests, made with stand-ins for the modules that they import for their fixtures."""
    package = types.ModuleType("redis_py_tests")
    conftest = types.ModuleType("redis_py_tests.conftest")
    conftest._get_client = None
    stand_ins = {"redis_py_tests": package, "redis_py_tests.conftest": conftest, **modules}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    mark = pytest.mark
    pytest.mark = AnyMark()
    try:
        spec = importlib.util.spec_from_file_location("redis_py_tests.test_lock", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        pytest.mark = mark
        for name, was in before.items():
            if was is None:
                del sys.modules[name]
            else:
                sys.modules[name] = was


def check(
    module: Any,
    count: int,
    different: dict[str, str],
    run: Callable[[Any, list[str]], None],
    flush: Callable[[], object],
) -> None:
    """Run each test, and compare which fail with a table."""
    tests = [
        (kept(), name)
        for class_name, kept in inspect.getmembers(module, inspect.isclass)
        if class_name.startswith("Test")
        for name in dir(kept)
        if name.startswith("test_")
    ]
    assert len(tests) == count
    failed = {}
    for kept, name in tests:
        flush()
        test = getattr(kept, name)
        try:
            run(test, list(inspect.signature(test).parameters))
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    assert {name: error for name, error in failed.items() if name not in different} == {}
    assert set(different) == set(failed), "they are alike by now: say so in the documentation"


def test_theirs_for_threads(sources, own):
    with redis.Redis.from_url(own.url) as r, redis.Redis.from_url(own.url, decode_responses=True) as decoded:
        with standing_in(sys.modules["redis.lock"], redis_py.Lock):
            module = module_with_tests(sources / "test_lock.py")
        given = {"r": r, "r_decoded": decoded, "fake_lock_time": module.FakeLockTime()}
        check(
            module,
            FOR_THREADS,
            DIFFERENT_FOR_THREADS,
            lambda test, wanted: test(*(given[each] for each in wanted)),
            r.flushall,
        )


def test_theirs_for_asyncio(sources, own):
    plain = types.ModuleType("pytest_asyncio")
    plain.fixture = lambda: lambda function: function
    with standing_in(sys.modules["redis.asyncio.lock"], redis_py_asyncio.Lock):
        module = module_with_tests(sources / "test_asyncio" / "test_lock.py", pytest_asyncio=plain)

    def run(test, wanted):
        async def work():
            async with (
                redis.asyncio.Redis.from_url(own.url) as r,
                redis.asyncio.Redis.from_url(own.url, decode_responses=True) as decoded,
            ):
                given = {"r": r, "r_decoded": decoded, "fake_lock_time": module.FakeLockTime()}
                try:
                    outcome = test(*(given[each] for each in wanted))
                    if inspect.isawaitable(outcome):
                        await outcome
                finally:
                    for each in (r, decoded):  # Theirs has nothing to close; ours goes with its event loop.
                        await redis_py_asyncio.client_of(each).close()

        asyncio.run(work())

    with redis.Redis.from_url(own.url) as direct:
        check(module, FOR_ASYNCIO, DIFFERENT, run, direct.flushall)


def test_the_page_counts_them():
    page = (ROOT / "docs/howto/from-redis-py.md").read_text()
    count, version = FOR_THREADS + FOR_ASYNCIO, RELEASE.rpartition("=")[2]
    passed = count - len(DIFFERENT_FOR_THREADS) - len(DIFFERENT)
    assert f"Of the {count} tests that redis-py {version} has of its two locks, {passed} pass" in page
