"""``client.synchronized(key)``: a function that runs under a lock whose name is made from the call's arguments.

Everything that can be wrong with it is reported when the function is decorated, not when it is called.
"""

from __future__ import annotations

import functools
import inspect
import string
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from pyredisson.core.names import check_name

P = ParamSpec("P")
R = TypeVar("R")


class Key:
    """How a lock's name is made from the arguments of a call: ``"orders:{order_id}"``, as ``str.format`` has it.

    Args:
        template: The name, with fields in braces that begin with the name of a parameter.
        function: Whose arguments they are.

    Raises:
        TypeError: Not a ``str``, or no function.
        ValueError: A field that is no parameter, or a template that ``str.format`` would not take.
    """

    def __init__(self, template: str, function: Callable[..., object]) -> None:
        check_name(template)
        self._template = template
        self._function = function.__qualname__
        self._signature = inspect.signature(function)
        for field in _fields(template):
            self._check(field, function)

    def _check(self, field: str, function: Callable[..., object]) -> None:
        first = field.partition(".")[0].partition("[")[0]
        known = self._signature.parameters
        if first not in known:
            there = ", ".join(known) or "none"
            raise ValueError(
                f"{self._template!r} names {field or '{}'!r}, but {function.__qualname__}() has no parameter "
                f"{first!r}; its parameters: {there}"
            )

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The name for a call.

        Raises:
            TypeError: The arguments do not fit, as the call itself would say.
            ValueError: They do not have what the template names.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            return string.Formatter().vformat(self._template, (), bound.arguments)
        except Exception as error:
            raise ValueError(
                f"no name of a lock can be made of {self._template!r} for this call of {self._function}(): "
                f"{type(error).__name__}: {error}"
            ) from error


def _fields(template: str) -> Iterator[str]:
    try:
        for _, field, spec, _ in string.Formatter().parse(template):
            if field is not None:
                yield field
            if spec:
                yield from _fields(spec)
    except ValueError as error:
        raise ValueError(f"{template!r} is not a valid template for a name: {error}") from None


def _check(function: object) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise TypeError(f"put @{type(function).__name__} above @synchronized, not below it")
    if not inspect.isfunction(function):
        raise TypeError(f"synchronized() decorates functions, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__}() is a generator: its body runs after the call, when the lock has been released; "
            "acquire the lock inside it"
        )


def _check_key(key: object) -> None:
    if isinstance(key, str):
        return
    example = f"{key.__name__}:{{...}}" if inspect.isfunction(key) else "orders:{order_id}"
    raise TypeError(
        f"synchronized() takes the name of a lock, a str, not {key!r}: write "
        f'@client.synchronized("{example}") above the function'
    )


def synchronized_function(
    block: Callable[[str], AbstractContextManager[object]], key: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """See :meth:`pyredisson.Redisson.synchronized`; ``block`` makes the block of the lock with a name."""
    _check_key(key)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _check(function)
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__}() is a coroutine function: its body runs after the call, when the lock is "
                "free again; use synchronized() of a pyredisson.asyncio client"
            )
        name = Key(key, function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with block(name.of(args, kwargs)):
                return function(*args, **kwargs)

        return call

    return decorate


def synchronized_task(
    block: Callable[[str], AbstractAsyncContextManager[object]], key: str
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """See :meth:`pyredisson.asyncio.Redisson.synchronized`; ``block`` makes the block of the lock with a name."""
    _check_key(key)

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        _check(function)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__}() is not a coroutine function: waiting in it would block the event loop; "
                "make it `async def`, or use synchronized() of a client for threads"
            )
        name = Key(key, function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with block(name.of(args, kwargs)):
                return await function(*args, **kwargs)

        return call

    return decorate
