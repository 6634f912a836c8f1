"""Whether this user may do what a lock needs, by the server's own rules, without a write.

``ACL DRYRUN`` answers that where this user may run it. Elsewhere a script calls each command: on Redis 7.0 and later,
and on Valkey, as one that may not write, before that with arguments that have no effect. Rights are checked first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import redis
import redis.exceptions as rx

from pyredisson._core.names import LockNames
from pyredisson._shared import rights
from pyredisson.inspection.servers import Command, Server, encode_name

#: A command's arguments behind its key that have no effect: those that it refuses, or of a key that is not there.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("hexists", "hget", "hdel", "hmget", "zscore", "zrem"), ("x",)),
    **dict.fromkeys(("zcount", "zrange", "zrangebyscore", "lrange"), ("0", "1")),
    **dict.fromkeys(("pexpire", "incrby", "decrby"), ("no number",)),
    **dict.fromkeys(("zadd", "zincrby"), ("no number", "x")),
    "hincrby": ("x", "no number"),
    "hset": ("x", "x", "x"),
    "set": ("x", "PX", "no number"),
    "lindex": ("0",),
    "lrem": ("0", "x"),
    "rpush": ("x",),
}
#: These would write in a script that may.
_ALWAYS_WRITE = frozenset({"rpush", "incr", "decr"})

_SCRIPT = """
local replies = {}
for number, line in ipairs(ARGV) do
    local reply = redis.pcall(unpack(cjson.decode(line)))
    replies[number] = type(reply) == 'table' and reply['err'] or ''
end
return replies
"""


@final
@dataclass
class Permissions:
    """What this user may not do, as far as it could be asked.

    Attributes:
        missing: Commands that the server does not know: renamed away, or too new.
        denied: Commands that this user may not run.
        keys: Keys of a lock that this user may not use.
        channels: Channels of a lock that this user may not use.
        unchecked: What could not be asked, and why.
    """

    missing: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def note(self, command: Sequence[str], answer: object) -> None:
        """Note what the server says of a command."""
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
        lower, name = text.lower(), command[0].lower()
        if "unknown" in lower or "not found" in lower:
            self.missing.append(name)
        elif not _is_denial(lower):
            pass  # It would run, or fails for another reason.
        elif "run th" in lower:
            self.denied.append(name)
        else:
            (self.channels if "channel" in lower else self.keys).append(command[1])


def _is_denial(text: str) -> bool:
    return any(word in text for word in ("permission", "can't", "acl failure", "noperm"))


def probe_permissions(server: Server, name: str) -> Permissions:
    """Ask what this user may do with a lock.

    Args:
        server: The server; the name's keys are on it.
        name: The lock.

    Raises:
        redis.exceptions.RedisError: The server does not answer.
        OSError: The server does not answer.
    """
    found, names = Permissions(), LockNames(name)
    every = set().union(*(kind.commands for kind in rights.KINDS.values()))
    calls = [_call(command, name) for command in sorted(every)]
    calls += [("exists", key) for key in (names.epoch("doctor"), names.channel, names.waiting)]
    calls += [("publish", channel, "") for channel in (names.channel, names.waiting)]
    if not _ask_rules(server, found, [*calls, ("subscribe", names.channel)]):
        _run_script(server, found, calls)
        _subscribe(server, found, names.channel)
    try:
        server.ask("EVALSHA", "0" * 40, "0")
    except rx.NoScriptError:
        pass
    except rx.ResponseError as error:
        found.note(("evalsha",), error)
    for each in ("missing", "denied", "keys", "channels"):
        setattr(found, each, list(dict.fromkeys(getattr(found, each))))
    return found


def _call(command: str, key: str) -> tuple[str, ...]:
    return (command,) if command == "time" else (command, key, *_ARGUMENTS.get(command, ()))


def _ask_rules(server: Server, found: Permissions, calls: Sequence[tuple[str, ...]]) -> bool:
    """Ask by ``ACL DRYRUN``. Returns whether this user may."""
    try:
        user = server.ask("ACL", "WHOAMI")
        server.ask("ACL", "DRYRUN", user, "PING")
    except rx.ResponseError:
        return False
    asked = [*calls, ("eval", "return 1", "0"), ("evalsha", "0" * 40, "0"), ("info",)]
    questions: list[Command] = [("ACL", "DRYRUN", user, *map(encode_name, each)) for each in asked]
    for call, answer in zip(asked, server.ask_many(questions, refused=lambda _: None), strict=True):
        if answer != b"OK":
            found.note(call, answer)
    return True


def _run_script(server: Server, found: Permissions, calls: Sequence[tuple[str, ...]]) -> None:
    """Call each command in a script."""

    def run(script: str, some: Sequence[tuple[str, ...]]) -> Any:
        return server.ask("EVAL", script, "0", *(json.dumps(each, ensure_ascii=True) for each in some))

    try:
        try:
            replies = run(f"#!lua flags=no-writes\n{_SCRIPT}", calls)
        except rx.ResponseError as error:
            if "compiling" not in str(error).lower():
                raise
            found.unchecked.append(f"whether this user may run {', '.join(sorted(_ALWAYS_WRITE))}")
            calls = [each for each in calls if each[0] not in _ALWAYS_WRITE]
            replies = run(_SCRIPT, calls)  # Before Redis 7.0.
    except rx.ResponseError as error:
        found.note(("eval",), error)
        found.unchecked.append(f"which commands this user may run in scripts ({error})")
        return
    for call, reply in zip(calls, replies, strict=True):
        if reply:
            found.note(call, reply)


def _subscribe(server: Server, found: Permissions, channel: str) -> None:
    """Subscribe to a channel for a moment."""
    pool = redis.ConnectionPool(cast("type[Any]", server.endpoint.connection_class), **server.settings)
    client: Any = redis.Redis(connection_pool=pool)
    try:
        with client.pubsub() as pubsub:
            pubsub.subscribe(channel)
            if pubsub.get_message(timeout=1.0) is None:
                found.unchecked.append("whether this user may subscribe")
    except rx.ResponseError as error:
        found.note(("subscribe", channel), error)
    finally:
        client.close()
        pool.disconnect()
