"""A Django project in one file, served over ASGI: sync locks through ``sync_to_async``, in the ways people write it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import anyio.to_thread
import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

import pyredisson
import pyredisson.asyncio
from tests.frameworks.apps.shared import NAME, URL, CriticalSection

logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="none", ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
django.setup()

client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(lock_watchdog_timeout=1.5))

Call = Callable[..., Awaitable[Any]]


def sensitive(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
    return sync_to_async(function, thread_sensitive=True)(*args)


def insensitive(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
    return sync_to_async(function, thread_sensitive=False)(*args)


def through_anyio(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
    return anyio.to_thread.run_sync(function, *args)


def through_executor(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
    return asyncio.get_running_loop().run_in_executor(None, function, *args)


WAYS: dict[str, Call] = {
    "sensitive": sensitive,
    "insensitive": insensitive,
    "to_thread": asyncio.to_thread,
    "anyio": through_anyio,
    "executor": through_executor,
}


async def inside(section: str) -> None:
    with CriticalSection(section):
        await asyncio.sleep(0.01)


async def call_by_call(call: Call, name: str) -> str:
    """``try_lock()`` in one call, ``unlock()`` in another."""
    lock = client.get_lock(f"{NAME}{name}")
    for _ in range(300):
        try:
            if await call(lock.try_lock):
                break
        except pyredisson.LockError as error:
            return f"{type(error).__name__}: {error}"
        await asyncio.sleep(0.005)
    else:
        return "not acquired"
    await inside(name)
    try:
        await call(lock.unlock)
    except pyredisson.LockNotOwnedError as error:
        return f"{type(error).__name__}: {error}"
    return "released"


async def by_stack(call: Call, name: str) -> str:
    """``hold()`` on a stack that is closed in another call."""
    stack = ExitStack()
    for _ in range(300):
        try:
            await call(stack.enter_context, client.get_lock(f"{NAME}{name}").hold(wait_time=0))
        except pyredisson.LockTimeoutError:
            await asyncio.sleep(0.005)
        else:
            break
    else:
        return "not acquired"
    await inside(name)
    await call(stack.close)
    return "released"


async def by_owner(call: Call, name: str) -> str:
    """A handle that belongs to an owner of its own."""
    lock = client.get_lock(f"{NAME}{name}", owner=client.new_owner())
    while not await call(lock.try_lock):  # noqa: ASYNC110 - as its users would
        await asyncio.sleep(0.005)
    await inside(name)
    await call(lock.unlock)
    return "released"


async def at_once(call: Call, name: str) -> str:
    """All of it in one call."""

    def work() -> str:
        with client.get_lock(f"{NAME}{name}").hold(wait_time=20), CriticalSection(name):
            return "released"

    return str(await call(work))


FORMS = {"calls": call_by_call, "stack": by_stack, "owner": by_owner, "whole": at_once}


async def gathered(request: HttpRequest, form: str, way: str) -> JsonResponse:
    """Some tasks of one request that all want the lock."""
    call, name = WAYS[way], f"-{form}-{way}"
    if "warm" in request.GET:  # A use in the parent, which all the children inherit the context of.
        await at_once(call, name)
    count = int(request.GET.get("tasks", "6"))
    return JsonResponse(await asyncio.gather(*(FORMS[form](call, name) for _ in range(count))), safe=False)


def ready(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"pid": os.getpid()})


def collect(request: HttpRequest) -> JsonResponse:
    """Find what only the garbage collector finds: the contexts of requests that failed."""
    return JsonResponse(gc.collect(), safe=False)


urlpatterns = [
    path("ready", ready),
    path("collect", collect),
    path("gathered/<form>/<way>", gathered),
]
app = get_asgi_application()
