"""``client.synchronized()`` and ``client.run_once()``: functions that run under a lock named after their arguments.

Everything that can be wrong with it is reported when the function is decorated, not when it is called.
"""

from __future__ import annotations

import functools
import inspect
import string
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, ParamSpec, TypeAlias, get_args

from pyredisson import _kinds as kinds
from pyredisson._core.deadline import AT_LEAST, Seconds, lease_ms, seconds, shown, whole_ms
from pyredisson._core.names import check_name
from pyredisson._shared.arguments import NotPortable, check_times
from pyredisson._shared.owners import make_core
from pyredisson.errors import LockError
from pyredisson.runs import Ran

P = ParamSpec("P")


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
        for field in fields_of(template):
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


def fields_of(template: str) -> Iterator[str]:
    """Yield the fields of a template, as they stand in their braces.

    Raises:
        ValueError: ``str.format`` would not take it.
    """
    try:
        for _, field, spec, _ in string.Formatter().parse(template):
            if field is not None:
                yield field
            if spec:
                yield from fields_of(spec)
    except ValueError as error:
        raise ValueError(f"{template!r} is not a valid template for a name: {error}") from None


def _check(function: object, word: str) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise TypeError(f"put @{type(function).__name__} above @{word}, not below it")
    if not inspect.isfunction(function):
        raise TypeError(f"{word}() decorates functions, not {shown(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__}() is a generator: its body runs after the call, when the lock has been released; "
            "acquire the lock inside it"
        )


def _check_key(key: object, word: str) -> None:
    if isinstance(key, str):
        return
    example = f"{key.__name__}:{{...}}" if inspect.isfunction(key) else "orders:{order_id}"
    raise TypeError(
        f'{word}() takes the name of a lock, a str, not {key!r}: write @client.{word}("{example}") above the function'
    )


class GuardedCalls:
    """How calls are guarded. Immutable.

    Args:
        word: What the decorator is called.
        key: The lock's name, or a template of it.
        block: Makes the block of the lock with a name. It has a lease, or ``None``: then the function is not called.
        skipped: Makes what is returned then, of the lock's name; a coroutine with asyncio.
        ran: Makes what is returned of the function's result.

    Raises:
        TypeError: The key is not a ``str``.
    """

    def __init__(
        self,
        word: str,
        key: str,
        block: Callable[[str], Any],
        skipped: Callable[[str], Any],
        ran: Callable[[Any], Any] = lambda result: result,
    ) -> None:
        _check_key(key, word)
        self._word, self._key, self._block, self._skipped, self._ran = word, key, block, skipped, ran

    def function(self, function: Callable[P, Any]) -> Callable[P, Any]:
        """Decorate a function."""
        _check(function, self._word)
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__}() is a coroutine function: its body runs after the call, when the lock is "
                f"free again; use {self._word}() of a pyredisson.asyncio client"
            )
        key = Key(self._key, function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            name = key.of(args, kwargs)
            with self._block(name) as lease:
                if lease is not None:
                    return self._ran(function(*args, **kwargs))
            return self._skipped(name)

        return call

    def task(self, function: Callable[P, Coroutine[Any, Any, Any]]) -> Callable[P, Coroutine[Any, Any, Any]]:
        """Decorate a coroutine function."""
        _check(function, self._word)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__}() is not a coroutine function: waiting in it would block the event loop; "
                f"make it `async def`, or use {self._word}() of a client for threads"
            )
        key = Key(self._key, function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            name = key.of(args, kwargs)
            async with self._block(name) as lease:
                if lease is not None:
                    return self._ran(await function(*args, **kwargs))
            return await self._skipped(name)

        return call


#: What happens to a call when another owner holds the lock.
WhenBusy: TypeAlias = Literal["wait", "skip", "raise"]
#: Which lock it is: that of ``get_lock()``, ``get_fair_lock()`` and so on.
Guarding: TypeAlias = Literal["lock", "fair", "fenced", "spin", "token"]


def check_kind(kind: str) -> None:
    """Raise ``ValueError`` unless it is one of :data:`Guarding`."""
    if kind not in get_args(Guarding):
        raise ValueError(f"kind must be one of {', '.join(map(repr, get_args(Guarding)))}, not {shown(kind)}")


def check_when_busy(when_busy: str) -> None:
    """Raise ``ValueError`` unless it is one of :data:`WhenBusy`."""
    if when_busy not in get_args(WhenBusy):
        raise ValueError(f"when_busy must be 'wait', 'skip' or 'raise', not {shown(when_busy)}")


def lock_of(client: Any, kind: Guarding, name: str) -> Any:
    """Return the lock of a kind that a client makes."""
    return getattr(client, "get_lock" if kind == "lock" else f"get_{kind}_lock")(name)


def guard_of(
    client: Any,
    skipped: Callable[[str], Any],
    key: str,
    wait_time: Seconds | None,
    lease_time: Seconds | None,
    kind: Guarding,
    when_busy: WhenBusy,
) -> GuardedCalls:
    """Return the guard of ``synchronized()``, whose arguments these are. ``skipped``: as for :class:`GuardedCalls`.

    Raises:
        TypeError, ValueError: One of them is not valid.
    """
    check_times(wait_time, lease_time, client)
    check_kind(kind)
    check_when_busy(when_busy)
    wait = 0 if when_busy != "wait" and wait_time is None else wait_time

    def block(name: str) -> Any:
        return lock_of(client, kind, name).hold(wait, lease_time, skip=when_busy == "skip")

    return GuardedCalls("synchronized", key, block, skipped)


class RunOnce(NotPortable):
    """What the two forms of ``client.run_once()`` share.

    Args:
        client: The client.
        key: The lock's name; of a function, a template of it.
        at_most: Seconds until it is free if the process crashes; ``None``: it is renewed while it runs.
        at_least: Seconds from its beginning for which it does not run again.
        skipped: As for :class:`GuardedCalls`.

    Raises:
        TypeError, ValueError: A name or a time is not valid.
    """

    #: The lock of this form.
    _lock_class: type[Any]

    def __init__(
        self, client: Any, key: str, at_most: Seconds | None, at_least: Seconds, skipped: Callable[[str], Any]
    ) -> None:
        _check_key(key, "run_once")
        check_name(key)
        self._most_ms = None if at_most is None else lease_ms(at_most, "at_most")
        least = seconds(at_least, "at_least")
        self._least_ms = whole_ms(least, "at_least") if least > 0 else 0
        if self._most_ms is not None and at_least is AT_LEAST:
            self._least_ms = min(self._least_ms, self._most_ms)
        if least < 0 or (self._most_ms is not None and self._least_ms > self._most_ms):
            raise ValueError(f"at_least must be from 0 to at_most, not {least:g} s")
        if self._most_ms is not None:
            client._core.check_lease(self._most_ms, "at_most")
        self._client, self._key, self._most, self._skipped = client, key, at_most, skipped
        self._entered: Any = None

    def __repr__(self) -> str:
        return f"<RunOnce {self._key!r}>"

    def _lock_of(self, name: str) -> Any:
        core = make_core(self._client._core, kinds.RunOnceCore, name, self._most_ms, self._least_ms)
        return self._lock_class(self._client, core)

    def _block(self, name: str) -> Any:
        return self._lock_of(name).hold(0, self._most, skip=True)

    def _enter_once(self) -> Any:
        """Make the block of ``with``, which may be entered once."""
        if self._entered is not None:
            raise LockError(f"run_once({self._key!r}) can be entered only once: call it again", name=self._key)
        self._entered = self._block(self._key)
        return self._entered

    def _guard(self) -> GuardedCalls:
        return GuardedCalls("run_once", self._key, self._block, self._skipped, Ran)
