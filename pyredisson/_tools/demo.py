"""``pyredisson demo``: sell seats from several processes, without the lock and with it, then kill a holder.

Everything is real: a server, processes, SIGKILL. Each process sells in a way that fails as soon as two do it at once:
it reads the stock, lets the customer pay, and writes the stock less one.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
from redis import Redis
from redis.exceptions import RedisError
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from pyredisson import Config, Redisson, RedissonError
from pyredisson._core.names import LockNames
from pyredisson._tools.common import BadUsage, ExitCode, Stopped, check_posix, connect, failure, signals

PAYING_SECONDS = 0.010
LEASE_SECONDS = 3.0
PATIENCE_SECONDS = 20.0  # for what takes much less: the demo must not hang
CONFIG = Config(lock_watchdog_timeout=LEASE_SECONDS)
SIGNALS = signals("SIGINT", "SIGTERM", "SIGHUP")


class Shop(NamedTuple):
    """The server of a demo, and the keys that it uses there."""

    url: str
    stock: str
    sales: str
    lock: str


class SaleResult(NamedTuple):
    """The log of sales after a run. ``duplicates`` counts the seats that were sold more than once."""

    title: str
    seats: int
    sold: int
    duplicates: int
    left: int
    seconds: float

    @property
    def is_exact(self) -> bool:
        """Whether each seat was sold once."""
        return self.sold == self.seats and self.duplicates == 0 and self.left == 0


def run_demo(*, seats: int, workers: int, url: str | None = None, console: Console | None = None) -> int:
    """Run the demo and print what happened.

    Args:
        seats: How many seats are in stock.
        workers: How many processes sell them.
        url: A single server; the demo removes its keys at the end. ``None``: a private server.
        console: Where to print; by default the standard output.

    Returns:
        0 if the run with the lock was exact and the lock of the killed holder was taken over; 1 if not; 69 without a
        server; 128 + n after signal n.

    Raises:
        BadUsage: The URL is not one of a single server.
    """
    if url is not None and urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        raise BadUsage("--url must be that of a single server: redis://, rediss:// or unix://")
    console = console or Console()
    try:
        with (
            _signals_handled(_end),
            Redisson.embedded(config=CONFIG) if url is None else connect(url, CONFIG) as client,
        ):
            keys = (f"pyredisson-demo:{client.id}:{key}" for key in ("stock", "sales", "lock"))
            shop = Shop(url or str(client.url), *keys)
            client.get_lock(shop.lock).is_locked()  # Without a server the demo ends here.
            console.print(
                f"{workers} processes sell {seats} seats. Each reads the stock, lets the customer pay,\n"
                "and writes the stock less one.\n",
                highlight=False,
            )
            with Redis.from_url(shop.url, decode_responses=True) as redis, _cleaned_up(redis, shop):
                columns = TextColumn("{task.description:<13}"), BarColumn(28), TextColumn("{task.fields[status]}")
                with Progress(*columns, console=console) as progress:
                    unlocked = _sell_out("without lock", redis, shop, workers, seats, progress)
                    locked = _sell_out("with lock", redis, shop, workers, seats, progress)
                    takeover = _kill_the_holder(client, shop, progress)
            return show_results(console, unlocked, locked, takeover)
    except (RedisError, RedissonError) as error:
        raise failure(error) from None


@contextmanager
def _signals_handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    handled = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]  # As under nohup(1).
    before = {each: signal.signal(each, handler) for each in handled}
    try:
        yield
    finally:
        for each, former in before.items():
            signal.signal(each, former)


def _end(signum: int, frame: FrameType | None) -> None:
    """End the program by ``SystemExit``, and ignore further signals, so that everything is cleaned up."""
    _ignore_signals()
    raise SystemExit(ExitCode.SIGNALLED + signum)


def _ignore_signals() -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Handle signals at the end of the block. In processes that it starts they are blocked: Ctrl-C is for this one."""
    seen: list[int] = []
    resource_tracker.ensure_running()  # Starting it later would unblock the signals.
    with _signals_handled(lambda signum, frame: seen.append(signum)):  # Other threads do not block them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if seen:
        signal.raise_signal(seen[0])


@contextmanager
def _cleaned_up(redis: Redis, shop: Shop) -> Iterator[None]:
    """End the processes and remove the keys at the end of the block."""
    try:
        yield
    finally:
        _ignore_signals()
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        redis.delete(*shop[1:], LockNames(shop.lock).waiting)


def _sell_out(title: str, redis: Any, shop: Shop, workers: int, seats: int, progress: Progress) -> SaleResult:
    bar = progress.add_task(title, total=seats, status="processes start")
    redis.set(shop.stock, seats)
    redis.delete(shop.sales)
    sellers = _start(shop, workers, sell, title == "with lock")
    started = last_sale = time.monotonic()
    sold = 0
    while any(seller.is_alive() for seller in sellers) or redis.llen(shop.sales) != sold:
        before, sold = sold, redis.llen(shop.sales)
        excess = f", [red]{sold - seats} too many[/]" if sold > seats else ""
        progress.update(bar, completed=min(sold, seats), status=f"{sold} sold{excess}")
        last_sale = time.monotonic() if sold != before else last_sale
        if time.monotonic() - last_sale > PATIENCE_SECONDS:
            raise Stopped(ExitCode.FAILED, f"{title}: nothing was sold for {PATIENCE_SECONDS:.0f} s")
        sellers[0].join(0.05)
    if any(seller.exitcode for seller in sellers):
        raise Stopped(ExitCode.FAILED, f"{title}: a process failed")
    sales = Counter(redis.lrange(shop.sales, 0, -1))
    duplicates = sum(times > 1 for times in sales.values())
    return SaleResult(title, seats, sold, duplicates, int(redis.get(shop.stock)), time.monotonic() - started)


def _kill_the_holder(client: Redisson, shop: Shop, progress: Progress) -> float | None:
    """Kill a process that holds the lock, and return the seconds until we have it; ``None`` for never."""
    bar = progress.add_task("holder killed", total=None, status="processes start")
    [holder] = _start(shop, 1, hold)
    progress.update(bar, status=f"its lease is {LEASE_SECONDS:.0f} s, and the watchdog renews it")
    lock = client.get_lock(shop.lock)
    if lock.try_lock(1.2 * LEASE_SECONDS):
        raise Stopped(ExitCode.FAILED, "the lock was lost while its holder was alive")
    holder.kill()
    killed_at = time.monotonic()
    progress.update(bar, status="killed; its lease runs out")
    taken_over = lock.try_lock(LEASE_SECONDS + PATIENCE_SECONDS)
    takeover = time.monotonic() - killed_at
    if taken_over:
        lock.unlock()
    status = f"[green]taken over[/] after {takeover:.2f} s" if taken_over else "[red]not taken over[/]"
    progress.update(bar, total=1, completed=1, status=status)
    return takeover if taken_over else None


def _start(shop: Shop, count: int, part: Callable[..., None], *arguments: object) -> list[BaseProcess]:
    """Start processes that do a part, and wait until all are ready."""
    spawn = multiprocessing.get_context("spawn")
    with _signals_deferred():
        ready = spawn.Barrier(count + 1)
        processes = [
            spawn.Process(target=_play, args=(part, shop, ready, *arguments), daemon=True) for _ in range(count)
        ]
        for process in processes:
            process.start()
    try:
        ready.wait(PATIENCE_SECONDS)
    except BrokenBarrierError:
        raise Stopped(ExitCode.FAILED, "the other processes did not start") from None
    finally:
        with _signals_deferred():
            del ready  # A signal in the middle of this would leave semaphores behind.
    return list(processes)


# ---- what the other processes do -------------------------------------------------------------------------------------


def _play(part: Callable[..., None], shop: Shop, ready: Barrier, *arguments: object) -> None:
    try:
        with Redisson.from_url(shop.url, config=CONFIG) as client:
            part(client, shop, ready, *arguments)
    except (RedisError, RedissonError, BrokenBarrierError) as error:
        sys.exit(f"pyredisson: {type(error).__name__}: {error}")


def sell(client: Redisson, shop: Shop, ready: Barrier, locked: bool) -> None:
    """Sell one seat after another until none is left."""
    lock = client.get_lock(shop.lock) if locked else nullcontext()
    with Redis.from_url(shop.url) as redis:
        redis.ping()
        ready.wait(PATIENCE_SECONDS)
        selling = True
        while selling:
            with lock:
                selling = sell_one(redis, shop)


def sell_one(redis: Any, shop: Shop) -> bool:
    """Sell the last seat in stock, and return whether there was one. Only correct while no other process does it."""
    seat = int(redis.get(shop.stock) or 0)
    if seat <= 0:
        return False
    time.sleep(PAYING_SECONDS * random.uniform(0.8, 1.2))
    redis.set(shop.stock, seat - 1)
    redis.rpush(shop.sales, seat)
    return True


def hold(client: Redisson, shop: Shop, ready: Barrier) -> None:
    """Acquire the lock and keep it."""
    with client.get_lock(shop.lock):
        ready.wait(PATIENCE_SECONDS)
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()


# ---- what is shown ---------------------------------------------------------------------------------------------------


def show_results(console: Console, unlocked: SaleResult, locked: SaleResult, takeover: float | None) -> int:
    """Print a table and what it means, and return the exit code."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in ("sold", "oversold", "duplicates", "seconds", "sales/s", "takeover"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in (unlocked, locked):
        color = "green" if each.is_exact else "red"
        wrong = [f"[{color}]{count}[/]" for count in (max(0, each.sold - each.seats), each.duplicates)]
        table.add_row(each.title, f"{each.sold}", *wrong, f"{each.seconds:.1f}", f"{each.sold / each.seconds:.0f}")
    lease = f"{LEASE_SECONDS:.0f} s"
    after = "[red]never[/]" if takeover is None else f"[green]{takeover:.2f} of {lease}[/]"
    table.add_row("holder killed", "", "", "", "", "", after)
    meaning = [
        "Without the lock nothing went wrong this time: by luck, and not by design."
        if unlocked.is_exact
        else "Without the lock, processes sold what others had already sold.",
        f"With it, each of the {locked.seats} seats was sold once."
        if locked.is_exact
        else "[red]With it, the seats were not sold once each: that must not happen.[/]",
        f"A killed holder's lock (lease: {lease}) went to the next process after {takeover:.2f} s."
        if takeover is not None
        else "[red]A holder was killed, and no other process acquired its lock: that must not happen.[/]",
    ]
    console.print()
    console.print(table)
    console.print(*meaning, sep="\n", highlight=False)
    return 0 if locked.is_exact and takeover is not None else ExitCode.FAILED


# ---- demo ------------------------------------------------------------------------------------------------------------
# ``pyredisson demo``: its arguments.


@click.command()
@click.option("--seats", type=click.IntRange(1, 100_000), default=150, help="Seats in stock.")
@click.option("--workers", type=click.IntRange(2, 64), default=4, help="Processes that sell them.")
@click.option(
    "--url", help="Your own server (redis://, rediss:// or unix://).  [default: a private server, stopped at the end]"
)
def demo(**options: Any) -> int:
    """Sell seats from several processes, without the lock and with it, then kill a holder of the lock."""
    check_posix("demo")

    return run_demo(**options)
