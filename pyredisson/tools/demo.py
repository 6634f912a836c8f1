"""``pyredisson demo``: sell seats from several processes, without the lock and with it, then kill a holder.

Everything is real: a server, operating system processes, SIGKILL. Each process sells in the way that is wrong as soon
as two do it at once: read the stock, let the customer pay, write the stock less one.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import FrameType, TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from typing_extensions import Self

from pyredisson import Config, Lock, Redisson, RedissonError
from pyredisson.tools.run import BadUsage, ExitCode, connect, say

__all__ = ["run_demo"]

PAYING_SECONDS = 0.010
LEASE_SECONDS = 3.0

# Far more than anything here takes, and still an end: a demo that hangs would show nothing.
PATIENCE_SECONDS = 20.0
LOOK_EVERY = 0.05


class DemoError(Exception):
    """The demo could not be played to its end."""


@dataclass(frozen=True)
class Shop:
    """The keys of one demo, under a prefix that is nobody else's."""

    prefix: str

    @property
    def stock(self) -> str:
        return f"{self.prefix}:stock"

    @property
    def sales(self) -> str:
        return f"{self.prefix}:sales"

    @property
    def lock(self) -> str:
        return f"{self.prefix}:lock"


@dataclass(frozen=True)
class SaleResult:
    """What the log of sales says after a run."""

    title: str
    seats: int
    sold: int
    duplicates: int
    """Seats that were sold more than once."""
    left: int
    seconds: float

    @property
    def oversold(self) -> int:
        return max(0, self.sold - self.seats)

    @property
    def is_exact(self) -> bool:
        return self.sold == self.seats and self.duplicates == 0 and self.left == 0


def run_demo(*, seats: int, workers: int, url: str | None = None, console: Console | None = None) -> int:
    """Play the demo and show what happened.

    Args:
        seats: How many seats are in stock.
        workers: How many processes sell them.
        url: A single server of the user's; ``None`` for a private one. The keys used there are removed at the end.
        console: Where to show it; ``None`` for stdout.

    Returns:
        0 if the locked run was exact and the lock of the killed holder was taken over; 1 if not; 69 without a server;
        128 + n after signal n.

    Raises:
        BadUsage: The URL is not one of a single server.
    """
    console = console or Console()
    if url is not None and urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        raise BadUsage("--url must be that of a single server: redis://, rediss:// or unix://")
    try:
        with Endings() as endings, _shop(url, endings) as (client, server_url, shop):
            console.print(
                f"{workers} processes sell {seats} seats. Each reads the stock, lets the customer pay,\n"
                "and writes the stock less one.\n",
                highlight=False,
            )
            with Crew(server_url, shop, endings) as crew, _progress(console) as progress:
                unlocked = _sell_out("without lock", crew, workers, seats, locked=False, progress=progress)
                locked = _sell_out("with lock", crew, workers, seats, locked=True, progress=progress)
                takeover = _kill_the_holder("holder killed", crew, client.get_lock(shop.lock), progress=progress)
            return show_results(console, unlocked, locked, takeover)
    except (RedisError, RedissonError) as error:
        say(f"the server is not available: {error}")
        return ExitCode.UNAVAILABLE
    except DemoError as error:
        say(str(error))
        return 1


# What the parent does.


@contextmanager
def _shop(url: str | None, endings: Endings) -> Iterator[tuple[Redisson, str, Shop]]:
    """A client, a URL by which other processes join it, and keys that are removed at the end."""
    config = Config(lock_watchdog_timeout=LEASE_SECONDS)
    with Redisson.embedded(config=config) if url is None else connect(url, config) as client:
        server_url = url if url is not None else cast(str, client.url)
        shop = Shop(f"pyredisson-demo:{client.id}")
        client.get_lock(shop.lock).is_locked()  # A server that is not there is noticed here.
        try:
            yield client, server_url, shop
        finally:
            if url is not None:
                with endings.put_off(), Redis.from_url(url) as redis:
                    redis.delete(shop.stock, shop.sales, shop.lock)


def _sell_out(title: str, crew: Crew, workers: int, seats: int, *, locked: bool, progress: Progress) -> SaleResult:
    """Sell all seats, and count what was sold."""
    bar = progress.add_task(title, total=seats, said="processes start")
    with Redis.from_url(crew.url, decode_responses=True) as redis:
        redis.set(crew.shop.stock, seats)
        redis.delete(crew.shop.sales)
        sellers = [crew.start(sell, locked) for _ in range(workers)]
        for seller in sellers:
            seller.expect("ready")
        for seller in sellers:
            seller.tell("go")
        begun = news_at = time.monotonic()
        sold = 0
        while running := [seller.process.sentinel for seller in sellers if not seller.has_ended]:
            wait(running, timeout=LOOK_EVERY)
            sold, before = cast(int, redis.llen(crew.shop.sales)), sold
            news_at = time.monotonic() if sold != before else news_at
            if time.monotonic() - news_at > PATIENCE_SECONDS:
                raise DemoError(f"{title}: nothing was sold for {PATIENCE_SECONDS:.0f} s")
            _show_sold(progress, bar, sold, seats)
        seconds = time.monotonic() - begun
        for seller in sellers:
            seller.expect("sold out")
        sales = Counter(cast("list[str]", redis.lrange(crew.shop.sales, 0, -1)))
        left = stock_of(redis, crew.shop)
    sold = sales.total()
    duplicates = sum(times > 1 for times in sales.values())
    _show_sold(progress, bar, sold, seats)
    return SaleResult(title, seats, sold, duplicates, left, seconds)


def _kill_the_holder(title: str, crew: Crew, lock: Lock, *, progress: Progress) -> float | None:
    """Kill a process while it holds the lock; the seconds until another one has it, or `None` for never."""
    bar = progress.add_task(title, total=LEASE_SECONDS, said="processes start")
    holder = crew.start(hold)
    waiter = crew.start(take_over)
    holder.expect("holding")
    waiter.expect("ready")
    waiter.tell("go")
    waiter.expect("waiting")
    progress.update(bar, said="watchdog renews the lease")
    _see_a_renewal(lock)
    holder.process.kill()
    killed_at = time.monotonic()
    while not wait([waiter.line], timeout=LOOK_EVERY):
        waited = time.monotonic() - killed_at
        if waited > LEASE_SECONDS + PATIENCE_SECONDS:
            progress.update(bar, completed=LEASE_SECONDS, said="[red]not taken over[/]")
            return None
        progress.update(bar, completed=min(waited, LEASE_SECONDS), said=f"{waited:.1f} s, nobody has the lock")
    waiter.expect("taken over")
    takeover = time.monotonic() - killed_at
    progress.update(bar, completed=LEASE_SECONDS, said=f"[green]taken over[/] after {takeover:.2f} s")
    return takeover


def _see_a_renewal(lock: Lock) -> None:
    """Wait until the lease has become longer again: the holder's watchdog is at work."""
    before = lock.remain_time_to_live()
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        left = lock.remain_time_to_live()
        if left is None or before is None:
            raise DemoError("the lock was lost while its holder was alive")
        if left > before:
            return
        before = left
        time.sleep(LOOK_EVERY)
    raise DemoError("the holder's watchdog did not renew the lease")


# What the other processes do. Each is told to start by a word, and answers with one; an error is a word too.


def sell(url: str, shop: Shop, line: Connection, locked: bool) -> None:
    """A seller: one after the other, until there is nothing left."""
    with _client(url) as client, Redis.from_url(url) as redis:
        lock: AbstractContextManager[object] = client.get_lock(shop.lock) if locked else nullcontext()
        redis.ping()
        line.send("ready")
        line.recv()
        selling = True
        while selling:
            with lock:
                selling = sell_one(redis, shop)
        line.send("sold out")


def sell_one(redis: Redis, shop: Shop) -> bool:
    """Sell the last seat in stock; whether there was one. Only right while nobody else does the same."""
    seat = stock_of(redis, shop)
    if seat <= 0:
        return False
    time.sleep(PAYING_SECONDS * random.uniform(0.8, 1.2))
    redis.set(shop.stock, seat - 1)
    redis.rpush(shop.sales, seat)
    return True


def stock_of(redis: Redis, shop: Shop) -> int:
    stock = redis.get(shop.stock)
    if stock is None:
        raise DemoError("the server has lost its data")
    return int(cast(bytes, stock))


def hold(url: str, shop: Shop, line: Connection) -> None:
    """A process that takes the lock and never lets it go."""
    with _client(url) as client, client.get_lock(shop.lock):
        line.send("holding")
        line.recv()


def take_over(url: str, shop: Shop, line: Connection) -> None:
    """A process that wants a lock which is held."""
    with _client(url) as client:
        lock = client.get_lock(shop.lock)
        line.send("ready")
        line.recv()
        if lock.try_lock():
            raise DemoError("the lock was free although somebody held it")
        line.send("waiting")
        with lock:
            line.send("taken over")


def _client(url: str) -> Redisson:
    return Redisson.from_url(url, config=Config(lock_watchdog_timeout=LEASE_SECONDS))


def _play(part: Callable[..., None], url: str, shop: Shop, line: Connection, *args: object) -> None:
    try:
        try:
            part(url, shop, line, *args)
        except (RedisError, RedissonError, DemoError) as error:
            line.send(f"{type(error).__name__}: {error}")
    except (EOFError, OSError):
        pass  # The parent has gone.


class Member:
    """One other process, and the line to it."""

    def __init__(self, part: Callable[..., None], url: str, shop: Shop, args: tuple[object, ...]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.line, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_play, args=(part, url, shop, theirs, *args), daemon=True)
        # It inherits SIGINT blocked: Ctrl-C is for the parent, who ends the others. The tracker, which multiprocessing
        # starts with the first of them, would unblock it.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    @property
    def has_ended(self) -> bool:
        return self.process.exitcode is not None

    def tell(self, word: str) -> None:
        self.line.send(word)

    def expect(self, word: str) -> None:
        """Wait for a word.

        Raises:
            DemoError: Another one came, or none.
        """
        try:
            heard = self.line.recv() if self.line.poll(PATIENCE_SECONDS) else "nothing"
        except EOFError:
            heard = "goodbye"
        if heard != word:
            raise DemoError(f"a process should have said {word!r}, and said {heard!r}")


class Crew:
    """The other processes, none of which outlives the block."""

    def __init__(self, url: str, shop: Shop, endings: Endings) -> None:
        self.url = url
        self.shop = shop
        self._endings = endings
        self._members: list[Member] = []

    def start(self, part: Callable[..., None], *args: object) -> Member:
        with self._endings.put_off():
            member = Member(part, self.url, self.shop, args)
            self._members.append(member)
        return member

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._endings.put_off():
            for member in self._members:
                member.process.kill()
            for member in self._members:
                member.process.join()


class Endings:
    """Turns the signals that end a program into one `SystemExit`, so that everything is cleaned up, and only once."""

    def __init__(self) -> None:
        self._signum: int | None = None
        self._put_off = False
        self._raised = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN:  # as under nohup(1)
                self._before[signum] = signal.signal(signum, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _end(self, signum: int, frame: FrameType | None) -> None:
        self._signum = self._signum or signum
        if not self._put_off:
            self._raise()

    def _raise(self) -> None:
        if self._signum is not None and not self._raised:
            self._raised = True
            raise SystemExit(ExitCode.SIGNALLED + self._signum)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """A block that is not interrupted. What was sent meanwhile comes at its end."""
        self._put_off = True
        try:
            yield
        finally:
            self._put_off = False
            self._raise()


# What is shown.


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<13}"),
        BarColumn(bar_width=28, complete_style="cyan", finished_style="cyan"),
        TextColumn("{task.fields[said]}"),
        console=console,
    )


def _show_sold(progress: Progress, bar: TaskID, sold: int, seats: int) -> None:
    too_many = f", [red]{sold - seats} too many[/]" if sold > seats else ""
    progress.update(bar, completed=min(sold, seats), said=f"{sold} sold{too_many}")


def show_results(console: Console, unlocked: SaleResult, locked: SaleResult, takeover: float | None) -> int:
    """The table, what it means, and the exit code."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in ("sold", "oversold", "duplicates", "seconds", "sales/s", "takeover"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in (unlocked, locked):
        color = "green" if result.is_exact else "red"
        table.add_row(
            result.title,
            f"{result.sold}",
            f"[{color}]{result.oversold}[/]",
            f"[{color}]{result.duplicates}[/]",
            f"{result.seconds:.1f}",
            f"{result.sold / result.seconds:.0f}",
        )
    lease = f"{LEASE_SECONDS:.0f} s"
    after = "[red]never[/]" if takeover is None else f"[green]{takeover:.2f} of {lease}[/]"
    table.add_row("holder killed", "", "", "", "", "", after)
    console.print()
    console.print(table)
    if unlocked.is_exact:
        console.print("Without the lock nothing went wrong this time: by luck, and not by design.", highlight=False)
    else:
        console.print("Without the lock, processes sold what others had already sold.", highlight=False)
    if locked.is_exact:
        console.print(f"With it, each of the {locked.seats} seats was sold once.", highlight=False)
    else:
        console.print("[red]With it, the seats were not sold once each: that must not happen.[/]", highlight=False)
    if takeover is None:
        console.print("[red]A holder was killed, and nobody had its lock after that: that must not happen.[/]")
    else:
        console.print(
            f"A killed holder's lock (lease: {lease}) went to the next process after {takeover:.2f} s.", highlight=False
        )
    return 0 if locked.is_exact and takeover is not None else 1
