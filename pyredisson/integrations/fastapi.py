"""FastAPI and Starlette: a client for the life of the application, a lock for each request, and responses for errors.

The lock of a request is acquired in the event loop, for ``def`` endpoints as well: requests that wait for a lock occupy
no thread of the pool. It belongs to the request's block, which any thread or task may leave.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import string
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, final, get_args, get_origin

import redis.exceptions as rx

from pyredisson import errors
from pyredisson._core.deadline import Seconds
from pyredisson._core.names import check_name
from pyredisson._shared.arguments import Extra, check_times
from pyredisson._shared.synchronized import Guarding, check_kind, fields_of, lock_of
from pyredisson.asyncio import Redisson
from pyredisson.config import Config
from pyredisson.lease import Lease

with Extra("fastapi"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
    from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CancelOnDisconnect", "add_exception_handlers", "client_of", "hold", "lifespan", "lock"]

_log = logging.getLogger("pyredisson.fastapi")

_KEY = "pyredisson"

_UNREACHABLE: tuple[type[Exception], ...] = (
    *(errors.ClientClosedError, errors.NoSyncedSlavesError, errors.OutcomeUnknownError, errors.QuorumUnreachableError),
    *(rx.ConnectionError, rx.TimeoutError),
)
#: The status of the response to an error, and its body. Neither says who holds the lock: that is for the log.
_RESPONSES: Mapping[type[Exception], tuple[int, str]] = {
    errors.LockTimeoutError: (409, "busy: another request is being processed, try again later"),
    errors.LockLostError: (423, "the lock was lost while the request was processed"),
    **dict.fromkeys(_UNREACHABLE, (503, "the lock server cannot be reached, try again later")),
}


def lifespan(
    url: str | None = None, *, config: Config | None = None
) -> Callable[[Starlette], AbstractAsyncContextManager[Mapping[str, Redisson]]]:
    """Return the ``lifespan`` of an application: it opens a client at the start, and closes it at the end.

    With a lifespan of your own, enter this one in it, and yield its state::

        @asynccontextmanager
        async def life(app):
            async with lifespan()(app) as state:
                yield state

    Args:
        url: As for :meth:`Redisson.from_url`. ``None``: as :meth:`Redisson.from_env`.
        config: The settings of the client.
    """

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncGenerator[Mapping[str, Redisson], None]:
        client = Redisson.from_env(config=config) if url is None else Redisson.from_url(url, config=config)
        async with client:
            yield {_KEY: client}

    return life


def client_of(request: HTTPConnection) -> Redisson:
    """Return the client that :func:`lifespan` opened.

    Raises:
        RuntimeError: The application runs without that lifespan.
    """
    client = getattr(request.state, _KEY, None)
    if not isinstance(client, Redisson):
        raise RuntimeError(
            "no client of pyredisson: make the application with lifespan=pyredisson.integrations.fastapi.lifespan(), "
            "and run it by a server, or a test client, that runs lifespans"
        )
    return client


@asynccontextmanager
async def hold(
    request: HTTPConnection,
    name: str,
    *,
    wait_time: Seconds | None = 0,
    lease_time: Seconds | None = None,
    kind: Guarding = "lock",
) -> AsyncGenerator[Lease, None]:
    """Hold a lock that is named after the parameters of a request, for endpoints of Starlette.

    Args and errors: as for :func:`lock`.
    """
    client, wanted = client_of(request), _name_for(request, name)
    try:
        guarding = lock_of(client, kind, wanted)
    except ValueError as error:  # The parameters make it empty, or too long.
        raise HTTPException(422, str(error)) from None
    async with guarding.hold(wait_time, lease_time) as lease:
        yield lease


def lock(
    name: str,
    *,
    wait_time: Seconds | None = 0,
    lease_time: Seconds | None = None,
    kind: Guarding = "lock",
) -> Callable[[HTTPConnection], AsyncGenerator[Lease, None]]:
    """Return a dependency that holds a lock while the endpoint runs, ``async def`` or ``def``; its value is the lease.

    Args:
        name: The lock's name, a template with the names of path and query parameters in braces: ``"order:{order_id}"``.
            A parameter that the endpoint declares has the type declared there, so that ``/orders/7`` and ``/orders/07``
            are one order if that is ``int``. Otherwise it is the text in the URL.
        wait_time: Seconds to wait at most; by default a request does not wait. ``None``: wait without a time limit.
        lease_time: As for :meth:`Lock.lock`.
        kind: Which lock: ``"lock"``, ``"fair"``, ``"fenced"``, ``"spin"`` or ``"token"``.

    Raises:
        TypeError, ValueError: Immediately: an argument is not valid.
        LockTimeoutError: In the request: the lock is busy. The endpoint is not called.
        LockLostError: In the request: the lock was lost while the endpoint ran.
    """
    check_times(wait_time, lease_time)
    check_kind(kind)
    check_name(name)
    if any(not _parameter_of(field).strip("0123456789") for field in fields_of(name)):
        raise ValueError(f"{name!r} must name a parameter in each pair of braces")

    async def held(request: HTTPConnection) -> AsyncGenerator[Lease, None]:
        async with hold(request, name, wait_time=wait_time, lease_time=lease_time, kind=kind) as lease:
            yield lease

    return held


def _name_for(request: HTTPConnection, template: str) -> str:
    """Return the name of the lock of a request. A parameter that is missing or invalid is the client's error."""
    values = {**request.query_params, **request.path_params}
    for field in {_parameter_of(field) for field in fields_of(template)}:
        if field not in values:
            raise HTTPException(422, f"the parameter {field!r} is missing")
        if isinstance(values[field], str):  # Otherwise a convertor of Starlette has converted it.
            try:
                values[field] = _converter(request.scope.get("endpoint"), field)(values[field])
            except ValueError:
                raise HTTPException(422, f"the parameter {field!r} is not valid") from None
    return string.Formatter().vformat(template, (), values)


def _parameter_of(field: str) -> str:
    return re.split(r"[.[]", field)[0]


@functools.lru_cache(maxsize=1024)
def _converter(endpoint: Any, parameter: str) -> Callable[[str], Any]:
    """Return what makes a parameter of the endpoint of its text in the URL."""
    declared = inspect.signature(endpoint, eval_str=True).parameters.get(parameter) if callable(endpoint) else None
    if declared is None or declared.annotation in (declared.empty, str):
        return str
    kind = declared.annotation
    from pydantic import TypeAdapter  # FastAPI's; endpoints of Starlette declare no such parameters.

    return TypeAdapter(get_args(kind)[0] if get_origin(kind) is Annotated else kind).validate_python


def add_exception_handlers(app: Starlette) -> None:
    """Answer requests that could not have their lock: 409 if it is busy, 423 if it was lost, 503 without a server.

    The bodies do not say who holds the lock; the log does.
    """
    for error in _RESPONSES:
        app.add_exception_handler(error, _respond)


async def _respond(request: HTTPConnection, error: Exception) -> JSONResponse:
    status, detail = next(_RESPONSES[kind] for kind in type(error).__mro__ if kind in _RESPONSES)
    level = logging.INFO if status == 409 else logging.WARNING
    _log.log(level, "pyredisson: %s answered with %d: %s", request.url.path, status, error)
    return JSONResponse({"detail": detail}, status, {"Retry-After": "1"} if status in (409, 503) else None)


@final
class CancelOnDisconnect:
    """Middleware that cancels a request whose client has gone away: it releases its lock, or stops waiting for it.

    Without it an endpoint runs to its end. A ``def`` endpoint cannot be cancelled: its lock is released when it
    returns. Add it last, so that it is the outermost: ``app.add_middleware(CancelOnDisconnect)``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read_ahead: asyncio.Queue[Message] = asyncio.Queue(1)  # A client cannot fill the memory with its body.
        answered = False

        async def watch() -> None:
            message: Mapping[str, Any] = {"type": ""}
            while message["type"] != "http.disconnect":
                message = await receive()
                if message["type"] == "http.disconnect" and not answered:
                    request.cancel()
                await read_ahead.put(dict(message))

        async def note_the_end(message: Message) -> None:
            nonlocal answered  # From then on servers report a disconnect, although background tasks may still run.
            answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        request = asyncio.ensure_future(self._app(scope, read_ahead.get, note_the_end))
        watcher = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({request})
        except asyncio.CancelledError:
            request.cancel()
            await asyncio.wait({request})
            raise
        finally:
            watcher.cancel()
        if not request.cancelled():
            request.result()
