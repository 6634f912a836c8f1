"""Fixtures for pytest, which finds them by itself (``-p no:pyredisson``: it does not)."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyredisson.asyncio
from pyredisson import Config, Redisson
from pyredisson._shared.arguments import Extra
from pyredisson.testing import RedissonServer

with Extra("testing"):
    import pytest

__all__ = [
    "async_redisson",
    "async_redisson_factory",
    "in_memory_async_redisson",
    "in_memory_redisson",
    "in_memory_server",
    "lock_name",
    "redisson",
    "redisson_config",
    "redisson_factory",
    "redisson_server",
    "redisson_url",
]


@pytest.fixture(scope="session")
def redisson_server() -> Iterator[RedissonServer]:
    """Return a private, real server for this test session; under pytest-xdist each worker has its own."""
    with RedissonServer() as server:
        yield server


@pytest.fixture
def redisson_config() -> Config:
    """Return the settings of the fixtures' clients: the defaults. Override it to change them."""
    return Config()


@pytest.fixture
def redisson_url(redisson_server: RedissonServer) -> Iterator[str]:
    """Return a URL for code that makes its own client. The helpers work on that client, too."""
    with redisson_server.route() as url:
        yield url


@pytest.fixture
def redisson_factory(redisson_server: RedissonServer, redisson_config: Config) -> Iterator[Callable[..., Redisson]]:
    """Return a function that makes clients for threads, ``redisson_factory(config=None)``. The test closes them."""

    @contextmanager
    def client(config: Config | None) -> Iterator[Redisson]:
        with redisson_server.route() as url, Redisson.from_url(url, config=config or redisson_config) as client:
            yield client

    def make(config: Config | None = None) -> Redisson:
        return clients.enter_context(client(config))

    with ExitStack() as clients:
        yield make


@pytest.fixture
def async_redisson_factory(
    redisson_server: RedissonServer, redisson_config: Config
) -> Iterator[Callable[..., pyredisson.asyncio.Redisson]]:
    """Return a plain function that makes asyncio clients, as :func:`redisson_factory` does for threads."""

    @contextmanager
    def client(config: Config | None) -> Iterator[pyredisson.asyncio.Redisson]:
        with redisson_server.route() as url:
            client = pyredisson.asyncio.Redisson.from_url(url, config=config or redisson_config)
            try:
                yield client
            finally:
                _close(client)

    def make(config: Config | None = None) -> pyredisson.asyncio.Redisson:
        return clients.enter_context(client(config))

    with ExitStack() as clients:
        yield make


@pytest.fixture
def redisson(redisson_factory: Callable[..., Redisson]) -> Redisson:
    """Return a client for threads, closed at the end of the test."""
    return redisson_factory()


@pytest.fixture
def async_redisson(async_redisson_factory: Callable[..., pyredisson.asyncio.Redisson]) -> pyredisson.asyncio.Redisson:
    """Return an asyncio client, closed at the end of the test. It serves whichever event loop uses it first."""
    return async_redisson_factory()


@pytest.fixture
def in_memory_server() -> Any:
    """Return a simulated server in this process, a ``fakeredis.FakeServer``; each test has its own."""
    import fakeredis

    return fakeredis.FakeServer()


@pytest.fixture
def in_memory_redisson(in_memory_server: Any, redisson_config: Config) -> Iterator[Redisson]:
    """Return a client for threads on ``in_memory_server``, for unit tests that need no real server."""
    import fakeredis

    with Redisson(fakeredis.FakeRedis(server=in_memory_server), config=redisson_config) as client:
        yield client


@pytest.fixture
def in_memory_async_redisson(in_memory_server: Any, redisson_config: Config) -> Iterator[pyredisson.asyncio.Redisson]:
    """Return an asyncio client on ``in_memory_server``, for unit tests that need no real server."""
    import fakeredis

    redis = fakeredis.FakeAsyncRedis(server=in_memory_server)
    client = pyredisson.asyncio.Redisson(redis, config=redisson_config)
    try:
        yield client
    finally:
        _close(client)


@pytest.fixture
def lock_name(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name)[:80]}-{uuid.uuid4().hex}"


def _close(client: pyredisson.asyncio.Redisson) -> None:
    # The test's own loop is closed, or idle and another plugin's. A loop of our own leaves both as they are, and unlike
    # asyncio.run() the thread's current event loop, too.
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(client.close())
    finally:
        loop.close()
