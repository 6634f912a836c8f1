"""What callers write with threads. Never run: mypy --strict and pyright read it (``make check``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import redis
from typing_extensions import assert_type

import pyredisson
from pyredisson import Config, Hold, Lease, Lock, PermitHold, ReadWriteLock, Redisson, events
from pyredisson.errors import LockError, LockLostError, LockNotOwnedError, QuorumUnreachableError
from pyredisson.integrations.celery import LeaderBeat, SingletonTask
from pyredisson.integrations.dramatiq import Singletons
from pyredisson.integrations.rq import singleton


def clients() -> None:
    assert_type(Redisson(), Redisson)
    assert_type(Redisson(redis.Redis(decode_responses=True)), Redisson)
    assert_type(Redisson(redis=redis.Redis.from_url("redis://h"), config=Config(timeout=2)), Redisson)
    assert_type(Redisson.from_url("redis://h", socket_keepalive=True), Redisson)
    assert_type(Redisson.from_url("embedded://", config=Config()), Redisson)
    assert_type(Redisson.embedded(), Redisson)
    with Redisson() as client:
        assert_type(client, Redisson)
        assert_type(client.get_lock("orders"), Lock)
        assert_type(client.get_read_write_lock("orders"), ReadWriteLock)
        assert_type(client.get_read_write_lock("orders").read_lock(), Lock)


def settings(listener: Callable[[events.Event], bool]) -> None:
    config = Config(timeout=timedelta(seconds=2), quorum_node_timeout=None, listeners=[listener])
    Config(lock_watchdog_timeout=timedelta(hours=2), restart_guard=timedelta(minutes=1), listeners={listener})
    Config(warn_held_longer_than=timedelta(minutes=1), listeners=(each for each in (listener, listener)))
    assert_type(config.timeout, float)
    assert_type(config.quorum_node_timeout, "float | None")


def redissons_names(lock: Lock) -> None:
    lock.lock(10)
    lock.lock(lease_time=timedelta(seconds=10))
    assert_type(lock.try_lock(), bool)
    lock.try_lock(0.5)
    lock.try_lock(timedelta(seconds=1), 30)
    lock.try_lock(wait_time=1, lease_time=None)


def threadings_names(lock: Lock) -> None:
    assert_type(lock.acquire(), bool)
    lock.acquire(False)
    lock.acquire(True, 1.5)
    lock.acquire(blocking=True, timeout=-1)
    lock.acquire(timeout=None)
    assert_type(lock.release(), None)
    assert_type(lock.locked(), bool)
    with lock as held:
        assert_type(held, Lock)
        held.extend(5)


def holds(lock: Lock) -> None:
    assert_type(lock.hold(), Hold[Lease[None]])
    with lock.hold(wait_time=5, lease_time=timedelta(minutes=1)) as lease:
        assert_type(lease, Lease[None])
        assert_type(lease.remaining(), float)
        assert_type(lease.lost, bool)
        assert_type(lease.token, None)
        assert_type(lease.ensure_held(), None)
        under(lease)


def under(lease: Lease) -> None:
    assert_type(lease.token, "int | None")


def tokens(client: Redisson) -> None:
    with client.get_fenced_lock("orders").hold(wait_time=5) as lease:
        assert_type(lease, Lease[int])
        assert_type(lease.token, int)
        under(lease)
    with client.get_fenced_lock("orders").hold(1, skip=True) as skipped:
        assert_type(skipped, Lease[int] | None)
    with client.get_lock("orders").hold(skip=True) as plain:
        assert_type(plain, Lease[None] | None)
    in_any(client.get_lock("orders").hold())


def in_any(hold: Hold) -> None:
    with hold as lease:
        assert_type(lease, Lease)


def permits(client: Redisson, skip: bool) -> None:
    semaphore = client.get_semaphore("seats", permits=3)
    with semaphore as entered:
        assert_type(entered, bool)
    with semaphore.hold(2, wait_time=5) as lease:
        assert_type(lease, Lease[None])
    seats = client.get_permit_expirable_semaphore("seats", 3)
    assert_type(seats.hold(), PermitHold[Lease[None]])
    with seats.hold(skip=skip) as skipped:
        assert_type(skipped, "Lease[None] | None")
    any_hold: PermitHold = seats.hold()
    print(any_hold)
    assert_type(seats.acquire(lease_time=60), str)
    assert_type(seats.try_acquire(1, 60), "str | None")
    assert_type(seats.acquire(60, permits=1), list[str])
    assert_type(seats.try_acquire(1, 60, permits=2), "list[str] | None")


def after_a_block_code_goes_on(lock: Lock) -> int:
    # A context manager that could swallow exceptions would make this a function that may return None.
    with lock:
        return 1


def after_a_hold_code_goes_on(lock: Lock) -> int:
    with lock.hold():
        return 1


def callbacks() -> None:
    def told(name: str, thread_id: int) -> None:
        print(name.upper(), thread_id + 1)

    async def told_in_a_task(name: str, thread_id: int) -> None:
        print(name.upper(), thread_id + 1)

    def heard(event: events.Event) -> None:
        if isinstance(event, events.Acquired):
            assert_type(event.waited, float)

    Config(on_lock_lost=told)
    Config(on_lock_lost=told_in_a_task)
    Config(listeners=[heard])
    Config(listeners=(heard,), sharded_subscription_mode="OFF", restart_guard=60, quorum_node_timeout=None)
    assert_type(Config().lock_watchdog_timeout, float)


def errors(lock: Lock, work: Callable[[], None]) -> None:
    try:
        work()
    except QuorumUnreachableError as error:
        assert_type(error.nodes, "dict[str, object]")
    except LockLostError as error:
        assert_type(error.name, "str | None")
        as_threading: RuntimeError = error
        not_owned: LockNotOwnedError = error
        of_a_lock: LockError = error
        print(as_threading, not_owned, of_a_lock)
    except pyredisson.LockTimeoutError as error:
        as_timeout: TimeoutError = error
        assert_type(error.holder, "pyredisson.Holder | None")
        print(as_timeout)


def synchronized_functions_keep_their_types(client: Redisson) -> None:
    @client.synchronized("orders:{order_id}", wait_time=5, lease_time=timedelta(seconds=3))
    def ship(order_id: int, note: str = "") -> str:
        return note

    assert_type(ship(7), str)
    assert_type(ship(order_id=7, note="now"), str)


def tries_and_back_offs(client: Redisson, lock: Lock) -> None:
    token = client.get_token_lock("orders", pyredisson.ConstantBackoff(0.2, jitter=0.1), tries=10)
    assert_type(token, pyredisson.TokenLock)
    assert_type(token.token, "str | None")
    assert_type(client.get_token_lock("orders", tries=None, owner=client.new_owner()), pyredisson.TokenLock)
    assert_type(client.get_spin_lock("orders", pyredisson.ExponentialBackoff(), tries=3), pyredisson.SpinLock)
    client.get_spin_lock("orders", Pauses())
    assert_type(lock.extend(timedelta(seconds=60)), bool)
    with lock.hold() as lease:
        assert_type(lease.extend(60), bool)


class Pauses:
    def delays(self) -> list[float]:
        return [0.1, 0.2]


def jobs_that_run_once(client: Redisson) -> None:
    with client.run_once("report", at_most=600, at_least=timedelta(seconds=60)) as run:
        assert_type(run, "Lease[None] | None")

    @client.run_once("report:{day}")
    def report(day: str) -> int:
        return len(day)

    ran = report("monday")
    assert_type(ran, "pyredisson.Ran[int] | pyredisson.Skipped")
    if ran:
        assert_type(ran.value, int)
    else:
        assert_type(ran.holder, "pyredisson.Holder | None")
    with client.run_once("report", at_most=None):
        ...


def leaders(client: Redisson) -> None:
    election = client.get_leader_election("scheduler")
    assert_type(election, pyredisson.LeaderElection)
    with election.term(wait_time=5) as lease:
        assert_type(lease, Lease[int])

    def lead(term: pyredisson.Term) -> None:
        assert_type(term.token, int)
        assert_type(term.wait(1), bool)

    campaign = election.start(lead)
    assert_type(campaign, pyredisson.Campaign)
    assert_type(campaign.leading, bool)
    assert_type(campaign.stop(timeout=5), bool)
    assert_type(campaign.join(timeout=5), bool)
    with election.start(lead) as entered:
        assert_type(entered, pyredisson.Campaign)
    assert_type(election.run(lead), None)
    assert_type(election.leader(), "pyredisson.Holder | None")
    assert_type(election.observe(print), pyredisson.Observation)


def jobs(client: Redisson) -> None:
    @singleton(client, "orders", retry_in=timedelta(minutes=1), lease_time=timedelta(hours=2))
    def job(order: int) -> str:
        return str(order)

    assert_type(job(5), "str | None")
    Singletons(client, retry_in=timedelta(minutes=1))


class OrderTask(SingletonTask):
    retry_in = timedelta(minutes=1)
    lease_time = timedelta(hours=2)


class Beat(LeaderBeat):
    standby_interval = timedelta(seconds=1)


def signals(client: Redisson, lock: Lock) -> None:
    event = client.get_event("ready")
    assert_type(event, pyredisson.Event)
    assert_type(event.is_set(), bool)
    assert_type(event.set(), None)
    assert_type(event.wait(timedelta(seconds=1)), bool)
    condition = client.get_condition(lock)
    assert_type(condition, pyredisson.Condition)
    with condition as entered:
        assert_type(entered, bool)
        assert_type(condition.wait(1.5), bool)
        assert_type(condition.wait_for(lambda: "ready", timeout=None), str)
        assert_type(condition.notify(2), None)
        assert_type(condition.notify_all(), None)
    barrier = client.get_barrier("start", 3, action=print, timeout=60)
    assert_type(barrier, pyredisson.Barrier)
    assert_type(barrier.wait() + barrier.parties + barrier.n_waiting, int)
    assert_type(barrier.broken, bool)
    assert_type(barrier.abort(), None)
    bounded = client.get_bounded_semaphore("printers", value=2)
    assert_type(bounded, pyredisson.BoundedSemaphore)
    assert_type(bounded.acquire(timeout=1), bool)
    assert_type(bounded.release(), None)
    with bounded as entered:
        assert_type(entered, bool)
