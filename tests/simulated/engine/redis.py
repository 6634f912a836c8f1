"""A Redis server without a server: one object, no I/O, no threads, no randomness, and time is what its clock says.

It runs the text of real scripts (Lua 5.1, through lupa) on a model of the commands that locks need, and it can fail as
a server fails: out of memory, restarted without its data, flushed. The simulator is built on it; a test of your own may
use it too::

    server = SimulatedRedis(clock=lambda: 1_785_000_000_000_000)
    server.command("SET", "seats", 3)
    server.eval("return redis.call('decr', KEYS[1])", [b"seats"])   # 2

The model is Redis 7.0 spoken to in RESP2, noeviction, one database. In what the scripts of this library do it is kept
equal to the real servers by ``tests/scripts/test_store_equals_server.py``. Valkey 9.1 differs from it in the wording of
some errors, and in how it spells numbers with a fraction or beyond 10^17. Redis 6.2 lacks ``SPUBLISH`` and the flags of
``PEXPIRE``, does not see some integers overflow, and wraps errors of ``redis.call`` in a text that begins with ``ERR
Error running script``: what is the first word here, ``WRONGTYPE`` or ``OOM``, stands further on in it there.

Not modelled: MULTI, databases, streams, sets, blocking commands, subscriptions (a published message is handed to
:attr:`SimulatedRedis.on_message`), keyspace notifications, ACLs, and the order in which big hashes and ``KEYS`` are
listed: here it is that of insertion. Replicas, clusters and sentinels are made of several such servers, in
``replication.py``, ``cluster.py`` and ``sentinel.py`` beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, final

from tests.simulated.engine.keyspace import (
    OK,
    TYPES,
    Command,
    Keyspace,
    Reply,
    ServerError,
    SortedSet,
    Status,
    Value,
    find_command,
    redis_command,
)
from tests.simulated.engine.scripting import Interpreter, Script, sha1_of

OnMessage: TypeAlias = Callable[[bytes, bytes, bool], int]
"""``on_message(channel, payload, sharded)``: takes a published message and says how many subscribers got it.

It is called in the middle of a command or script, so it must not call the server; ``sharded`` tells ``SPUBLISH``.
"""


class Entry(NamedTuple):
    """A key's content, as :meth:`SimulatedRedis.dump` shows it.

    Attributes:
        type: ``string``, ``hash``, ``list`` or ``zset``.
        value: ``bytes``; a ``dict`` of fields; a ``list``; a ``dict`` of members and scores.
        ttl_ms: What ``PTTL`` would say, or ``None`` if the key has no TTL.
    """

    type: str
    value: bytes | dict[bytes, bytes] | list[bytes] | dict[bytes, float]
    ttl_ms: int | None


class Snapshot(NamedTuple):
    """What a server stored at one moment, for :meth:`SimulatedRedis.follow`. To look into it, use ``dump()``."""

    values: dict[bytes, Value]
    deadlines: dict[bytes, int]


@final
class SimulatedRedis(Keyspace):
    """A server.

    Expired keys go when something touches them, so a clock that jumps back brings back those that nothing has touched.

    Args:
        clock: The server's wall clock, in microseconds since the Unix epoch. It is asked once a command or script, and
            may jump.
        on_message: See :attr:`on_message`.
        name: Tells this server from others, in error messages and as part of the ``run_id`` of ``INFO``.

    Attributes:
        on_message: Takes what is published; without it ``PUBLISH`` reaches nobody.
        maxmemory_reached: While true, commands that need memory fail with ``OOM``; in a script, until it has written.
        paused: While true, the server accepts no command; whoever simulates the network keeps them until it is false.
        replicas: What ``WAIT`` replies, and ``INFO`` calls ``connected_slaves``.
        role: ``master`` or ``slave``, for ``INFO``.
        read_only: While true, what would write is refused with ``READONLY``, as a replica refuses it.
        writes: How many writing commands have been run, whatever they changed.
        started_us: When it was started, by its clock. A new server has been running for a day.
        up: False between :meth:`crash` and :meth:`restart`.
        only_declared_keys: While true, a script that touches a key that is not in ``KEYS`` raises ``AssertionError``.
            Redis forbids it without checking it; some servers and proxies refuse it.
    """

    def __init__(
        self, clock: Callable[[], int], *, on_message: OnMessage | None = None, name: str = "simulated"
    ) -> None:
        super().__init__()
        self.name = name
        self.on_message = on_message
        self.maxmemory_reached = False
        self.paused = False
        self.replicas = 0
        self.role = "master"
        self.read_only = False
        self.writes = 0
        self.started_us = clock() - 86_400_000_000
        self.up = True
        self.only_declared_keys = False
        self._clock = clock
        self._scripts: dict[str, Script] = {}
        self.restarts = 0
        self._wrote = False
        self._lua = Interpreter.of_this_thread()

    def __repr__(self) -> str:
        state = "paused" if self.paused else "up" if self.up else "crashed"
        memory = ", out of memory" if self.maxmemory_reached else ""
        return f"<SimulatedRedis {self.name!r} {state}, {len(self._values)} keys{memory}>"

    # -- What a client sends

    def command(self, *args: bytes | str | int) -> Reply:
        """Run one command: ``command("HSET", "orders", "field", 1)``.

        Raises:
            ServerError: The server replied with an error.
            AssertionError: It is crashed or paused; nothing ran.
        """
        self._begin()
        name, *rest = [_encoded(arg) for arg in args]
        found = find_command(name)
        if found is None:
            raise ServerError("ERR", f"unknown command '{name.decode(errors='replace')}'")
        if found.writes:
            if self.read_only:
                raise _read_only()
            self.writes += 1
        if found.deny_oom and self.maxmemory_reached:
            raise _out_of_memory()
        return found.run(self, *rest)

    def eval(self, script: bytes | str, keys: Sequence[bytes] = (), args: Sequence[bytes] = ()) -> Reply:
        """Run a script, and remember it for :meth:`evalsha`. Errors as in :meth:`command`."""
        self._begin()
        loaded = self._lua.compile(_encoded(script))
        self._scripts[loaded.sha] = loaded
        return self._run(loaded, keys, args)

    def evalsha(self, sha: str, keys: Sequence[bytes] = (), args: Sequence[bytes] = ()) -> Reply:
        """Run a script that the server remembers. Errors as in :meth:`command`; ``NOSCRIPT`` if it does not."""
        self._begin()
        return self._run(self._remembered(sha), keys, args)

    def script_flush(self) -> None:
        """Forget all scripts."""
        self._begin()
        self._scripts.clear()

    # -- What happens to a server

    def crash(self) -> None:
        """End at once. Until :meth:`restart`, it takes no commands."""
        self.up = False

    def restart(self, *, data: bool = True) -> None:
        """Start anew, with no script remembered and not paused; without ``data``, with no key either."""
        if not data:
            self._values, self._deadlines = {}, {}
        self._scripts = {}
        self.restarts += 1
        self.started_us = self._clock()
        self.up = True
        self.paused = False

    # -- Looking at it from outside

    def dump(self) -> dict[bytes, Entry]:
        """Everything that is stored and has not expired. Works in a crashed server too."""
        self.now_us = self._clock()
        return {key: self._entry(key) for key in self._live_keys()}

    def _entry(self, key: bytes) -> Entry:
        value, ttl_ms = self._values[key], self._pttl(key)
        content = value.scores if isinstance(value, SortedSet) else value
        copied = content if isinstance(content, bytes) else content.copy()
        return Entry(TYPES[type(value)], copied, None if ttl_ms < 0 else ttl_ms)

    def snapshot(self) -> Snapshot:
        """All keys and their deadlines."""
        return Snapshot(_copied(self._values), self._deadlines.copy())

    def follow(self, snapshot: Snapshot) -> None:
        """Store what another server stored, as a replica does; scripts and the rest stay this server's own."""
        self._values = _copied(snapshot.values)
        self._deadlines = snapshot.deadlines.copy()

    def move_key(self, key: bytes, other: SimulatedRedis) -> None:
        """``MIGRATE`` one key: from then on it is the other server's, with its time to live."""
        self.now_us = self._clock()
        if self._find(key) is not None:
            other._values[key] = self._values[key]
            other._deadlines.pop(key, None)
            if key in self._deadlines:
                other._deadlines[key] = self._deadlines[key]
            self._forget(key)
            self.writes += 1
            other.writes += 1

    # -- Running scripts

    def _begin(self) -> None:
        assert (self.up, self.paused) == (True, False), f"{self!r} takes no commands"
        self.now_us = self._clock()

    def _run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        self._wrote = False
        return self._lua.run(self, script, keys, args)

    def admit(self, command: Command) -> None:
        """The interpreter's question before a script runs a command that writes."""
        if self.read_only:
            raise _read_only()
        if command.deny_oom and self.maxmemory_reached and not self._wrote:
            raise _out_of_memory()
        # Issuing a write is enough: it need not change anything.
        self._wrote = True
        self.writes += 1

    def _remembered(self, sha: str) -> Script:
        script = self._scripts.get(sha)
        if script is None:
            raise ServerError("NOSCRIPT", "No matching script. Please use EVAL.")
        return script

    @redis_command("EVAL")
    def _eval(self, script: bytes, number_of_keys: bytes, *keys_and_args: bytes) -> Reply:
        loaded = self._lua.compile(script)
        self._scripts[loaded.sha] = loaded
        return self._evalsha(loaded.sha.encode(), number_of_keys, *keys_and_args)

    @redis_command("EVALSHA")
    def _evalsha(self, sha: bytes, number_of_keys: bytes, *keys_and_args: bytes) -> Reply:
        keys = int(number_of_keys)
        return self._run(self._remembered(sha.decode()), keys_and_args[:keys], keys_and_args[keys:])

    @redis_command("SCRIPT")
    def _script(self, subcommand: bytes) -> Reply:
        assert subcommand.upper() == b"FLUSH", "scripts are loaded by running them"
        self._scripts.clear()
        return OK

    # -- Commands that concern the server

    @redis_command("PUBLISH")
    def _publish(self, channel: bytes, payload: bytes) -> Reply:
        return 0 if self.on_message is None else self.on_message(channel, payload, False)

    @redis_command("SPUBLISH")
    def _spublish(self, channel: bytes, payload: bytes) -> Reply:
        return 0 if self.on_message is None else self.on_message(channel, payload, True)

    @redis_command("PING")
    def _ping(self) -> Reply:
        return Status(b"PONG")

    @redis_command("WAIT")
    def _wait(self, replicas: bytes, timeout_ms: bytes) -> Reply:
        return self.replicas

    @redis_command("INFO")
    def _info(self, *sections: bytes) -> Reply:
        lines = [
            "# Server",
            "redis_version:7.0.15",
            "redis_mode:standalone",
            f"run_id:{sha1_of(f'{self.name} {self.restarts}'.encode())}",
            f"uptime_in_seconds:{max(0, self.now_us - self.started_us) // 1_000_000}",
            "# Memory",
            "maxmemory_policy:noeviction",
            "# Persistence",
            "aof_enabled:0",
            "# Replication",
            f"role:{self.role}",
            f"connected_slaves:{self.replicas}",
            f"master_replid:{sha1_of(f'{self.name} {self.restarts} data'.encode())}",
        ]
        return "".join(f"{line}\r\n" for line in lines).encode()


def _encoded(arg: bytes | str | int) -> bytes:
    return arg if isinstance(arg, bytes) else str(arg).encode()


def _out_of_memory() -> ServerError:
    return ServerError("OOM", "command not allowed when used memory > 'maxmemory'.")


def _read_only() -> ServerError:
    return ServerError("READONLY", "You can't write against a read only replica.")


def _copied(values: dict[bytes, Value]) -> dict[bytes, Value]:
    return {key: value if isinstance(value, bytes) else value.copy() for key, value in values.items()}
