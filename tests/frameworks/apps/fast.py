"""A FastAPI application with locks of both kinds on the same names: in endpoints, in dependencies, in streams."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.responses import StreamingResponse

import pyredisson
import pyredisson.asyncio
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")


def lost(name: str, number: int) -> None:
    note(f"lost {name.removeprefix(NAME)}")


client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(on_lock_lost=lost))
aclient = pyredisson.asyncio.Redisson.from_url(URL, config=pyredisson.Config(on_lock_lost=lost))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await aclient.close()
    client.close()


app = FastAPI(lifespan=lifespan)
WAIT = 20
Entered = dict[str, Any]


def inside() -> Entered:
    with CriticalSection():
        time.sleep(0.002)
    return {"pid": os.getpid()}


async def inside_for_a_while() -> Entered:
    with CriticalSection():
        await asyncio.sleep(0.002)
    return {"pid": os.getpid()}


@app.get("/ready")
async def ready() -> Entered:
    return {"pid": os.getpid()}


@app.get("/collect")
async def collect() -> int:
    """Find what only the garbage collector finds."""
    return gc.collect()


@app.get("/async")
async def async_endpoint() -> Entered:
    async with aclient.get_lock(NAME).hold(wait_time=WAIT):
        return await inside_for_a_while()


@app.get("/sync")
def sync_endpoint() -> Entered:
    with client.get_lock(NAME).hold(wait_time=WAIT):
        return inside()


@app.get("/sync/nested")
def sync_endpoint_nested() -> Entered:
    lock = client.get_lock(NAME)
    with lock.hold(wait_time=WAIT), lock, lock.hold(wait_time=0):
        assert lock.get_hold_count() == 3
        return inside()


@app.get("/hold/async")
async def hold_async(seconds: float) -> None:
    async with aclient.get_lock(NAME).hold(wait_time=WAIT):
        await asyncio.sleep(seconds)


@app.get("/hold/sync")
def hold_sync(seconds: float) -> None:
    with client.get_lock(NAME).hold(wait_time=WAIT):
        time.sleep(seconds)


# ---- dependencies ------------------------------------------------------------------------------------------------


def holding() -> Iterator[pyredisson.Lease]:
    """Entered and left in whatever worker thread is free."""
    with client.get_lock(NAME).hold(wait_time=WAIT) as lease:
        yield lease


async def holding_async() -> AsyncIterator[None]:
    async with aclient.get_lock(NAME).hold(wait_time=WAIT):
        yield


Lease = Annotated[pyredisson.Lease, Depends(holding)]


@app.get("/dependency/sync")
def dependency_of_a_sync_endpoint(lease: Lease) -> Entered:
    lease.ensure_held()
    return inside()


@app.get("/dependency/async")
async def dependency_of_an_async_endpoint(lease: Lease) -> Entered:
    lease.ensure_held()
    return await inside_for_a_while()


@app.get("/async-dependency/async", dependencies=[Depends(holding_async)])
async def async_dependency_of_an_async_endpoint() -> Entered:
    return await inside_for_a_while()


# ---- streams -----------------------------------------------------------------------------------------------------


@app.get("/stream/async/{form}")
async def stream_async(form: str) -> StreamingResponse:
    lock = aclient.get_lock(f"{NAME}-stream")

    async def rows() -> AsyncIterator[bytes]:
        async with lock if form == "with" else lock.hold(wait_time=WAIT):
            for number in range(10_000):
                with CriticalSection("-stream"):
                    yield b"row %d\n" % number
                await asyncio.sleep(0.01)

    return StreamingResponse(rows())


@app.get("/stream/sync")
def stream_sync() -> StreamingResponse:
    """Each step of the generator runs in whatever worker thread is free."""
    lock = client.get_lock(f"{NAME}-stream")

    def rows() -> Iterator[bytes]:
        with lock.hold(wait_time=WAIT):
            for number in range(10_000):
                with CriticalSection("-stream"):
                    yield b"row %d\n" % number
                time.sleep(0.01)

    return StreamingResponse(rows())
