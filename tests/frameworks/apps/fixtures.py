"""Run by tests, with pytest-asyncio: fixtures that hold a lock while a test runs, each step in a task of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import pyredisson.asyncio as pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection


@pytest_asyncio.fixture
async def client() -> AsyncIterator[pyredisson.Redisson]:
    async with pyredisson.Redisson.from_url(URL) as client:
        yield client


@pytest_asyncio.fixture
async def lease(client: pyredisson.Redisson) -> AsyncIterator[pyredisson.Lease]:
    async with client.get_lock(NAME).hold(wait_time=5) as lease:
        yield lease


@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(3))
async def test_inside(client: pyredisson.Redisson, lease: pyredisson.Lease, number: int) -> None:
    with CriticalSection():
        lease.ensure_held()
        assert await client.get_lock(NAME).try_lock() is False
