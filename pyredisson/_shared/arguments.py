"""The rules for arguments that façades look at themselves, and errors for what cannot work: guesses, misuse."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import wraps
from numbers import Real
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex, TypeVar, final

from pyredisson._core.deadline import Seconds, Uniform, optional_lease_ms, seconds, wait_seconds
from pyredisson._shared.callback import check_callback
from pyredisson.config import Backoff, Config, ConstantBackoff, ExponentialBackoff

if TYPE_CHECKING:
    from pyredisson._core.waiting import Delays
    from pyredisson._kinds.lock import LockCore

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def check_times(wait_time: Seconds | None, lease_time: Seconds | None, client: Any = None) -> None:
    """Raise ``TypeError`` or ``ValueError`` for a wait or a lease that is invalid, or too short for this client."""
    wait_seconds(wait_time)
    milliseconds = optional_lease_ms(lease_time)
    if milliseconds is not None and client is not None:
        client._core.check_lease(milliseconds)


def wait_of(blocking: bool, timeout: float | timedelta | None) -> float | None:
    """Return for how many seconds ``acquire(blocking, timeout)`` has to wait; ``None``: without end.

    ``timeout`` may be ``None``, as elsewhere, for -1.

    Raises:
        ValueError, TypeError, OverflowError: As ``threading.Lock.acquire``.
    """
    if isinstance(timeout, timedelta):
        raise TypeError(
            "timeout must be a number of seconds, as for threading.Lock.acquire(), not a timedelta; "
            "try_lock(wait_time=...) takes one"
        )
    if timeout is None:
        timeout = -1
    if not isinstance(timeout, float) and not hasattr(timeout, "__index__"):
        timeout = _float_of(timeout)
    if blocking is True and type(timeout) is int and timeout == -1:
        return None
    threading.Lock().acquire(blocking, timeout)  # A free one takes any arguments that are in order.
    if not blocking:
        return 0
    return None if timeout == -1 else float(timeout)


def _float_of(timeout: object) -> float:
    """Return a timeout that is a number, such as a ``Fraction``, although ``threading`` would not take it."""
    if not isinstance(timeout, Real):
        given = type(timeout).__name__
        raise TypeError(f"timeout must be a number of seconds, as for threading.Lock.acquire(), not {given}")
    return seconds(timeout, "timeout")


class UserBackoff:
    """A user's back-off, which has a source of random numbers of its own."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff

    def __repr__(self) -> str:
        return repr(self._backoff)

    def delays(self, uniform: Uniform) -> Iterable[float]:
        """See :class:`pyredisson._core.waiting.Delays`."""
        return self._backoff.delays()


def pauses(backoff: Backoff | None, tries: int | None, usual: Delays | None) -> tuple[Delays | None, int | None]:
    """Return the back-off to use, and how many attempts a waiter makes at most.

    Raises:
        TypeError: It is no back-off: it has no ``delays()``; or ``tries`` is not a whole number.
        ValueError: ``tries`` is not positive.
    """
    if tries is not None and (isinstance(tries, bool) or not isinstance(tries, int)):
        raise TypeError(f"tries must be a whole number or None, not {type(tries).__name__}")
    if tries is not None and tries < 1:
        raise ValueError(f"tries must be at least 1, not {tries}")
    if backoff is None:
        return usual, tries
    if isinstance(backoff, (ConstantBackoff, ExponentialBackoff)):
        return backoff, tries
    if isinstance(backoff, type):
        raise TypeError(f"backoff must be an object with a method delays(), not the class {backoff.__name__}")
    if not callable(getattr(backoff, "delays", None)):
        raise TypeError(f"backoff must have a method delays(), but {type(backoff).__name__} has none")
    check_callback("backoff.delays", backoff.delays)
    return UserBackoff(backoff), tries


def cores_of(locks: Sequence[Any], kind: type[Any]) -> list[LockCore]:
    """Return the cores of locks of one form, for threads or for asyncio.

    Raises:
        TypeError: One is something else than a lock, or a lock of the other form.
    """
    for lock in locks:
        if isinstance(lock, (list, tuple)):
            raise TypeError(f"a multi-lock takes locks, not a {type(lock).__name__} of them: unpack it, as in (*locks)")
        if not isinstance(lock, kind):
            form, given = kind.__module__, type(lock).__module__
            raise TypeError(f"a multi-lock of {form} takes locks of {form}, not a {given}.{type(lock).__name__}")
    return [lock._core for lock in locks]


def lock_of_condition(name_or_lock: Any, get_lock: Callable[[str], Any], kinds: tuple[type[Any], ...]) -> Any:
    """Return the lock of a condition: the one of that name, or this one. Raises ``TypeError`` for other kinds."""
    lock = get_lock(name_or_lock) if isinstance(name_or_lock, str) else name_or_lock
    if type(lock) not in kinds:
        raise TypeError(f"a condition needs the name of a lock, a Lock or a FairLock, not {type(lock).__name__}")
    word = lock._core.kind.word
    if word not in ("lock", "fair_lock"):  # The sides of a read-write lock are a Lock, too.
        raise TypeError(f"a condition needs the name of a lock, a Lock or a FairLock, not one of kind {word!r}")
    return lock


# ---- guesses ---------------------------------------------------------------------------------------------------------
# What users guess who know other libraries, and what to write instead: tables, and the errors that are made of them.


#: What an argument is called here and elsewhere.
WAITS = ("wait_time", "timeout", "blocking_timeout", "wait", "max_wait", "seconds")
LEASES = (
    *("lease_time", "lease", "ttl", "expire", "ex", "px", "at_most", "seconds", "time", "additional_time"),
    *("auto_release_time", "lock_timeout", "expire_time", "expires", "at_most_for", "lock_at_most_for"),
)
NUMBERS = (
    *("permits", "n", "value", "parties", "count", "limit", "initial", "initial_value", "max", "size", "number", "num"),
    *("amount", "capacity", "max_leases"),
)
SYNONYMS: Final = (
    *(WAITS, LEASES, NUMBERS),
    ("at_least", "at_least_for", "lock_at_least_for"),
    ("name", "key", "name_or_lock", "lock", "lock_name", "resource", "path"),
    ("permit_id", "permit_ids", "id", "ids", "permit", "token"),
    ("callback", "action", "predicate", "function", "func", "fn", "target", "on_elected", "on_change", "listener"),
    ("tries", "retries", "attempts", "max_attempts", "retry_count", "retry_times"),
    ("backoff", "sleep", "delay", "interval", "retry_delay"),
)

_LEASE_OF_A_TERM = "a term is renewed; its lease is Config(lock_watchdog_timeout=...)"
_TIMES_OF_A_LOCK: Final = {
    **dict.fromkeys(LEASES, "pass it where the lock is acquired: hold(lease_time=...)"),
    **dict.fromkeys(WAITS, "pass it where the lock is acquired: hold(wait_time=...)"),
}
_UNITS: Final = dict.fromkeys(("unit", "time_unit"), "times are in seconds, or a timedelta")
_TIMES_OF_A_WAIT: Final = dict.fromkeys(WAITS, "pass it where it waits: wait(timeout=...)")
_OF_MEMBERS: Final = {
    **_TIMES_OF_A_LOCK,
    "quorum": "use MultiLock(*locks, quorum=...)",
    **dict.fromkeys(("locks", "masters", "keys"), "pass the locks by position, as in (*locks)"),
}

_OF_A_LOCK: Final = {
    **_TIMES_OF_A_LOCK,
    "blocking": "try_lock() and acquire(blocking=False) do not wait",
    **dict.fromkeys(("thread_local", "id", "token", "local"), "for another owner pass owner=client.new_owner()"),
    **dict.fromkeys(("auto_renewal", "renew"), "what is acquired without a lease_time is renewed"),
    **dict.fromkeys(
        ("sleep", "retry_delay", "retry_interval", "retry_count", "retry_times"),
        "waiters are woken; get_spin_lock(name, backoff) makes attempts alone",
    ),
}

#: What other libraries let their users pass to a method, by its name, where it has no argument for that.
KEYWORDS: Final = {
    "get_lock": _OF_A_LOCK,
    "get_fair_lock": _OF_A_LOCK,
    "get_fenced_lock": _OF_A_LOCK,
    "get_spin_lock": _OF_A_LOCK,
    "get_token_lock": _OF_A_LOCK,
    "get_non_reentrant_lock": _OF_A_LOCK,
    "get_non_reentrant_fair_lock": _OF_A_LOCK,
    "get_read_write_lock": _OF_A_LOCK,
    "get_multi_lock": _OF_MEMBERS,
    "get_red_lock": _OF_MEMBERS,
    "get_semaphore": _TIMES_OF_A_LOCK,
    "get_permit_expirable_semaphore": _TIMES_OF_A_LOCK,
    "get_bounded_semaphore": dict.fromkeys(WAITS, "pass it where a permit is acquired: acquire(timeout=...)"),
    "get_event": _TIMES_OF_A_WAIT,
    "get_condition": _TIMES_OF_A_WAIT,
    "get_count_down_latch": {**_TIMES_OF_A_WAIT, **dict.fromkeys(NUMBERS, "use try_set_count(n)")},
    "get_leader_election": {
        **dict.fromkeys(LEASES, _LEASE_OF_A_TERM),
        **dict.fromkeys(WAITS, "use term(wait_time=...)"),
    },
    "term": {**dict.fromkeys(LEASES, _LEASE_OF_A_TERM), "blocking": "with wait_time=0 it does not wait"},
    "extend": {"replace_ttl": "the lease lasts for at least lease_time from now on, and is never shortened"},
    "hold": {
        "permits": "it holds one permit; acquire(permits=n) returns several",
        "blocking": "with wait_time=0 it does not wait",
        **_UNITS,
    },
    "lock": _UNITS,
    "try_lock": _UNITS,
    "synchronized": {"blocking": "with when_busy='skip' or 'raise' it does not wait"},
    "acquire": {
        "blocking": "try_acquire() does not wait",
        "sleep": "waiters are woken, and make no attempts meanwhile",
        "token": "for another owner make the lock with owner=client.new_owner()",
    },
}

_LEADS = "use `with election.term() as term:` and term.ensure_held(), or election.leader()"
_OWNED = "use is_held_by_current_thread(), or ensure_held()"
_ANOTHER_CLASS = "pyredisson has the locks and synchronizers of Redisson, and no other objects"

#: What other libraries call what is asked of an object of ours: by its class, what was tried and what to write instead.
ATTRIBUTES: Final = {
    "Redisson": {
        **dict.fromkeys(("lock", "Lock", "mutex", "get_mutex", "acquire_lock"), "use get_lock(name)"),
        **dict.fromkeys(("rlock", "get_rlock", "RLock"), "use get_lock(name), which is reentrant"),
        **dict.fromkeys(("semaphore", "Semaphore"), "use get_semaphore(name, permits=n)"),
        **dict.fromkeys(("redlock", "Redlock", "get_redlock"), "use get_red_lock(*locks)"),
        **dict.fromkeys(
            ("rwlock", "rw_lock", "get_rwlock", "get_rw_lock", "read_lock", "write_lock"),
            "use get_read_write_lock(name)",
        ),
        "get_cyclic_barrier": "use get_barrier(name, parties)",
        **dict.fromkeys(("latch", "get_latch"), "use get_count_down_latch(name)"),
        **dict.fromkeys(("election", "get_election", "leader"), "use get_leader_election(name)"),
        **dict.fromkeys(("acquire", "hold", "try_lock"), "use get_lock(name).hold()"),
        **dict.fromkeys(("unlock", "release", "extend", "locked", "is_locked"), "ask the lock: get_lock(name)"),
        **dict.fromkeys(("from_client", "from_redis", "from_connection"), "use Redisson(client)"),
        "from_pool": "use Redisson(redis.Redis(connection_pool=pool))",
        "from_config": "use from_url(url, config=config)",
        **dict.fromkeys(("create", "create_client", "from_host"), "use from_url(url)"),
        "connect": "it connects at its first use",
        **dict.fromkeys(("disconnect", "shutdown", "stop", "quit", "aclose"), "use close()"),
        **dict.fromkeys(
            ("is_shutdown", "is_shutting_down", "closed", "is_closed"), "a closed client raises ClientClosedError"
        ),
        **dict.fromkeys(
            (
                *("get_bucket", "get_map", "get_set", "get_list", "get_queue", "get_topic", "get_keys"),
                *("get_atomic_long", "get_rate_limiter", "get_bloom_filter", "get_script", "create_batch"),
            ),
            _ANOTHER_CLASS,
        ),
    },
    "ReadWriteLock": {
        **dict.fromkeys(
            ("lock", "try_lock", "unlock", "acquire", "release", "hold", "extend", "locked", "is_locked"),
            "it has two sides: use read_lock() or write_lock(), each of which is a lock",
        ),
        **dict.fromkeys(("reader_lock", "gen_rlock", "rlock", "r_lock", "reader", "acquire_read"), "use read_lock()"),
        **dict.fromkeys(("writer_lock", "gen_wlock", "wlock", "w_lock", "writer", "acquire_write"), "use write_lock()"),
    },
    "LeaderElection": {
        "leader_id": "use leader()",
        "lead": "use run(callback)",
        **dict.fromkeys(("is_leader", "has_leadership"), _LEADS),
        **dict.fromkeys(("elect", "elected", "acquire", "hold"), "use term(), or run(callback)"),
        **dict.fromkeys(("campaign", "volunteer", "join", "run_for", "start_campaign"), "use start(callback)"),
        **dict.fromkeys(("resign", "release"), "leave the block of term()"),
        **dict.fromkeys(("stop", "cancel"), "use stop() of the campaign that start(callback) returns"),
    },
    "Term": {
        **dict.fromkeys(("is_leader", "held", "is_held"), "use lost, remaining() or ensure_held()"),
        **dict.fromkeys(("resign", "release", "stop"), "return from the callback"),
    },
    "Campaign": {
        "is_leader": "use leading",
        **dict.fromkeys(("close", "cancel", "end"), "use stop()"),
        **dict.fromkeys(("is_alive", "done", "running"), "use join(timeout=0)"),
    },
    "Lease": {
        **dict.fromkeys(("held", "is_held", "is_locked", "locked", "valid"), "use lost, remaining() or ensure_held()"),
        **dict.fromkeys(("ttl", "remaining_time", "validity", "remain_time_to_live", "expires_in"), "use remaining()"),
        **dict.fromkeys(("renew", "refresh", "reacquire"), "use extend(lease_time)"),
        **dict.fromkeys(("release", "unlock"), "leave the block of hold()"),
    },
    "Semaphore": {
        **dict.fromkeys(("value", "get_value", "get_count", "count"), "use available_permits()"),
        **dict.fromkeys(("locked", "is_locked"), "use available_permits() == 0"),
        "set_permits": "use resize(permits)",
        "get_permits": "use available_permits()",
        "reduce_permits": "use add_permits(-n)",
        "acquire_uninterruptibly": "use acquire()",
    },
    "PermitExpirableSemaphore": {
        **dict.fromkeys(("extend", "renew", "refresh"), "use update_lease_time(permit_id, lease_time)"),
        "drain_permits": "use acquire(permits=n)",
    },
    "BoundedSemaphore": {
        "try_acquire": "use acquire(blocking=False)",
        "hold": "use `with semaphore:`",
        **dict.fromkeys(("available_permits", "value", "get_value"), "use get_semaphore(name, permits=n)"),
    },
    "CountDownLatch": {
        **dict.fromkeys(("await_", "acquire", "join"), "use wait(timeout)"),
        **dict.fromkeys(("set_count", "reset"), "use try_set_count(n)"),
        **dict.fromkeys(("decrement", "dec", "countdown", "arrive"), "use count_down()"),
        **dict.fromkeys(("locked", "is_set", "is_open", "done"), "use get_count(), which is 0 when it is open"),
    },
    "Event": {
        **dict.fromkeys(("is_open", "is_signaled", "is_signalled"), "use is_set()"),
        **dict.fromkeys(("trigger", "signal", "notify", "notify_all", "open"), "use set()"),
        **dict.fromkeys(("unset", "reset"), "use clear()"),
        **dict.fromkeys(("wait_for", "await_"), "use wait(timeout)"),
    },
    "Condition": {
        **dict.fromkeys(("lock", "try_lock", "hold"), "use `with condition:`"),
        "unlock": "use release()",
        **dict.fromkeys(("signal", "notify_one"), "use notify()"),
        **dict.fromkeys(("signal_all", "broadcast"), "use notify_all()"),
        **dict.fromkeys(("await_", "await_nanos"), "use wait(timeout)"),
    },
    "Barrier": {
        **dict.fromkeys(("await_", "enter", "acquire"), "use wait(timeout)"),
        **dict.fromkeys(("get_number_waiting", "num_waiting", "count"), "use n_waiting"),
    },
    "FencedLock": {"token": "use get_token(), or the token of the lease of hold()"},
    "TokenLock": {"get_token": "use token"},
    "MultiLock": {
        **dict.fromkeys(("valid", "ttl", "remain_time_to_live", "remaining"), "use validity()"),
        "members": "use locks",
    },
    "Lock": {
        **dict.fromkeys(("owned", "acquired", "is_acquired", "is_owned", "is_held", "held", "valid"), _OWNED),
        **dict.fromkeys(
            ("reacquire", "do_reacquire", "extend_lease", "do_extend", "refresh"), "use extend(lease_time)"
        ),
        "renew": "use extend(lease_time); without a lease_time the watchdog renews it",
        **dict.fromkeys(("ttl", "get_ttl", "pttl", "remaining", "validity"), "use remain_time_to_live()"),
        **dict.fromkeys(("reset", "break_lock", "force_release", "delete", "destroy"), "use force_unlock()"),
        **dict.fromkeys(
            ("wait", "notify", "notify_all", "new_condition"), "use get_condition(lock), whose wait() gives the lock up"
        ),
        **dict.fromkeys(("exists", "is_exists"), "use is_locked()"),
        "key": "use name",
        **dict.fromkeys(
            ("token", "get_token", "lock_and_get_token", "try_lock_and_get_token", "fencing_token"),
            "use get_fenced_lock(name)",
        ),
        "lock_interruptibly": "use lock(), which a signal or a cancellation interrupts",
        **dict.fromkeys(("do_acquire", "acquire_lock"), "use acquire()"),
        **dict.fromkeys(("try_acquire", "trylock", "timed_acquire"), "use try_lock(wait_time)"),
        **dict.fromkeys(("do_release", "release_lock"), "use release()"),
        **dict.fromkeys(("get_owner_id", "get_owner", "owner", "holder"), "use holder_of(name) of the client"),
    },
}


def instead_of(kind: type, name: str) -> str:
    """Return what to write instead of an attribute that a class of ours does not have; empty if that is not known."""
    ours = _snake_case(name)
    tables = [table for cls in kind.__mro__ if (table := ATTRIBUTES.get(cls.__name__))]
    known = next((table[each] for each in (name, ours) for table in tables if each in table), None)
    if known is not None or name.startswith("_"):
        return known or ""
    if ours.endswith("_async"):
        return "use pyredisson.asyncio, whose methods are coroutines"
    shorter = ours.removeprefix("get_").removeprefix("is_")
    there = dir(kind)
    found = next((each for each in (ours, f"get_{ours}", f"is_{ours}", shorter) if each != name and each in there), "")
    return found and f"use {found}"


class Guessed(type):
    """A class that says what to write instead of an attribute that it does not have."""

    __module__ = "pyredisson"

    if not TYPE_CHECKING:  # Else anything could be asked of it.

        def __getattr__(cls, name: str) -> NoReturn:
            instead = f": {found}" if (found := instead_of(cls, name)) else ""
            text = f"type object {cls.__name__!r} has no attribute {name!r}{instead}"
            raise AttributeError(text, name=name, obj=cls)


_YIELDS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _says_what_is_meant(method: FunctionType) -> Callable[..., Any]:
    """Return a method of ours that refuses keywords that it does not have, by :func:`refuse`.

    One that acquires or releases has ``**unknown``, and calls :func:`refuse` itself: an exception that a signal handler
    raises here would lose what it has acquired, or keep what it is to release. Its signature is shown without that.
    """
    code = method.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if "unknown" in inspect.unwrap(method).__code__.co_varnames:
        signature = inspect.signature(method)
        own = [each for each in signature.parameters.values() if each.name != "unknown"]
        method.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return method
    plain = len(known) < 2 and not code.co_flags & inspect.CO_VARARGS
    if plain or method.__name__.startswith("_") or code.co_flags & (inspect.CO_VARKEYWORDS | _YIELDS):
        return method

    def check(self: object, keywords: Mapping[str, object]) -> None:
        if not keywords.keys() <= known:
            refuse(getattr(self, method.__name__), {each: keywords[each] for each in keywords if each not in known})

    @wraps(method)
    def call(self: object, *args: Any, **keywords: Any) -> Any:
        if keywords:
            check(self, keywords)
        return method(self, *args, **keywords)

    @wraps(method)
    async def task(self: object, *args: Any, **keywords: Any) -> Any:
        if keywords:
            check(self, keywords)
        return await method(self, *args, **keywords)

    return task if inspect.iscoroutinefunction(method) else call


def settings_by_name(method: FunctionT) -> FunctionT:
    """Let a method that makes a client say how its settings are passed, if they are not passed by name."""
    most = method.__code__.co_argcount
    called = "" if method.__name__ == "__init__" else f".{method.__name__}"

    @wraps(method)
    def checked(*args: Any, **settings: Any) -> Any:
        if len(args) > most:
            first = ("redis, " if not called else "url, ") if most > 1 else ""
            raise TypeError(f"settings are passed by name: Redisson{called}({first}config=Config(...))")
        return method(*args, **settings)

    return checked  # type: ignore[return-value]


def refuse(method: Callable[..., Any], unknown: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for keywords that a method does not have, and name the right one.

    Python would name the class in which the method is written.
    """
    if unknown:
        wrong, parameters = next(iter(unknown)), inspect.signature(method).parameters.values()
        accepted = [f"*{each.name}" if each.kind is each.VAR_POSITIONAL else each.name for each in parameters]
        kind, name = type(method.__self__), method.__name__  # type: ignore[attr-defined]
        called = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
        raise TypeError(f"{called}() has no keyword argument {wrong!r}: {_instead(kind, name, wrong, accepted)}")


def _instead(kind: type, method: str, wrong: str, accepted: Collection[str]) -> str:
    """Return what to write instead of a wrong keyword."""
    if method == "__init__":
        in_config = any(field.name == wrong for field in fields(Config))
        return f"use config=Config({wrong}=...)" if in_config else "use Redisson.from_url(url)"
    given = (wrong, _snake_case(wrong))
    groups = [(each,) for each in given] + [group for group in SYNONYMS if set(given) & set(group)]
    meant = next((each for group in groups for each in group if each in accepted), None)
    if meant is not None:
        return f"use {meant}"
    known = next((table[each] for each in given if each in (table := KEYWORDS.get(method, {}))), None)
    if known is not None:
        return known
    attempt = "try_lock" if hasattr(kind, "try_lock") else "try_acquire"
    usual = next((names[0] for names in (WAITS, LEASES) if given[1] in names), "")
    offered = usual in inspect.signature(getattr(kind, attempt, refuse)).parameters
    elsewhere = f"; {attempt}() and hold() take {usual}" if offered and method in ("acquire", "lock") else ""
    return f"it takes {' and '.join(accepted)}{elsewhere}"


# ---- misuse ----------------------------------------------------------------------------------------------------------
# Errors for uses of the library that cannot work.


#: Stands for an argument that only a client gives.
BY_HAND: Any = None


class NotPortable:
    """Of use only in its process and through its client: pickling it raises an error that says what to do instead.

    It names the public module in which users find it.
    """

    __module__ = "pyredisson"
    __slots__ = ()

    def __init_subclass__(cls, shown: str = "", **others: Any) -> None:
        """Name the public module; ``shown``: the public name, of a class that has another one here, or of a base."""
        super().__init_subclass__(**others)
        package, _, inner = cls.__module__.partition("._")
        cls.__module__ = f"{package}.asyncio" if inner.startswith("asyncio.") else package
        if shown:
            cls.__name__ = cls.__qualname__ = shown
            for each in vars(cls).values():
                function = getattr(each, "__func__", each)
                if isinstance(function, FunctionType):
                    function.__qualname__ = f"{shown}.{function.__name__}"
        ours = cls.__module__.partition(".")[0] == _LIBRARY
        for name, each in list(vars(cls).items()) if ours else ():
            if isinstance(each, FunctionType):
                setattr(cls, name, _says_what_is_meant(each))

    if not TYPE_CHECKING:  # Else anything could be asked of it.

        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self)
            instead = f": {found}" if (found := instead_of(kind, name)) else ""
            text = f"{kind.__name__!r} object has no attribute {name!r}{instead}"
            raise AttributeError(text, name=name, obj=self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        kind = type(self).__name__
        article = "an" if kind[0] in "AEIO" else "a"
        name = getattr(self, "name", None)
        url = getattr(getattr(self, "_client", self), "url", None)
        if url is None:
            raise TypeError(
                f"{article} {kind} cannot be pickled or copied: it belongs to this process. Another process makes a "
                "client of its own, and acquires the lock itself"
            )
        masked = ", with the password in place of ***" if ":***@" in url else ""
        made = f".get_{_snake_case(kind)}({name!r})" if isinstance(name, str) else ""
        raise TypeError(
            f"{article} {kind} cannot be pickled or copied: it belongs to its client in this process. In another "
            f"process make a client from its URL{masked}: Redisson.from_url({url!r}){made}"
        )


def core_of(core: Any, handle: object, client: object) -> Any:
    """Return the core that a client made for a handle.

    Raises:
        TypeError: The handle was made by hand.
    """
    if hasattr(core, "describe"):
        return core
    name = next((repr(each) for each in (core, client) if isinstance(each, str)), "name")
    made = next(each.__name__ for each in type(handle).__mro__ if each.__module__.partition(".")[0] == "pyredisson")
    raise TypeError(
        f"a {made} is made by a client: client = Redisson.from_url(url), then client.get_{_snake_case(made)}({name})"
    )


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def no_event_loop() -> RuntimeError:
    """Return the error for an await of ``pyredisson.asyncio`` where no event loop of asyncio runs."""
    if _in_trio():
        return RuntimeError(
            "pyredisson.asyncio needs the event loop of asyncio, and this is trio: use a client of pyredisson (for "
            "threads), and await trio.to_thread.run_sync(...) for a function that acquires and releases the lock; or "
            "run the program with asyncio"
        )
    return RuntimeError(
        "pyredisson.asyncio needs a running event loop, and there is none: call it in a coroutine under asyncio.run(), "
        "or use pyredisson.Redisson, the client for threads"
    )


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    try:
        return trio is not None and trio.lowlevel.current_task() is not None
    except (AttributeError, RuntimeError):
        return False


def warn_never_entered(block: object, name: str) -> None:
    """Warn that the object which ``hold()`` returned was thrown away, and nothing was ever held."""
    if not sys.is_finalizing():
        warnings.warn(
            f"hold() of {name!r} was never entered, so nothing was held: write `with ....hold():` "
            "(`async with` for asyncio)",
            ResourceWarning,
            stacklevel=2,
            source=block,
        )


@final
class Extra:
    """Around the imports of a module that needs an extra: if one of them is missing, the error names the extra.

    Args:
        name: The extra.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] == "pyredisson":
            return
        raise ModuleNotFoundError(
            f'{error.name} is not installed: pip install "pyredisson[{self._name}]"', name=error.name, path=error.path
        ) from error


# ---- deprecation -----------------------------------------------------------------------------------------------------
# How a public name is deprecated: it warns in two minor versions, and goes in the third.


_MINOR_VERSIONS_THAT_WARN = 2
_LIBRARY = __name__.partition(".")[0]


def deprecated(what: str, *, since: str, instead: str) -> None:
    """Warn of the use of a public name, at the line of the program that uses it.

    Args:
        what: What the program wrote, such as `"Lock.old()"`.
        since: The minor version that deprecates it, such as `"0.4"`.
        instead: What to write.
    """
    major, minor = map(int, since.split("."))
    gone = f"{major}.{minor + _MINOR_VERSIONS_THAT_WARN}"
    warnings.warn(
        f"{what} is deprecated since pyredisson {since} and goes in {gone}: write {instead}",
        DeprecationWarning,
        stacklevel=_frames_of_the_library() + 1,
    )


def _frames_of_the_library() -> int:
    """Return how many frames of the library stand between the warning and the program that called."""
    frame, count = inspect.currentframe(), -1  # Not this one.
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _LIBRARY:
        frame, count = frame.f_back, count + 1
    return count
