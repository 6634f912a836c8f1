"""What the commands say and do about a lock of each library: test_libraries.py checks it, docs/libraries.py prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_UNKNOWN = "whether clients wait for it is not known: "

#: Where the version of a package stands, by language.
_VERSIONS = {
    "python": ("python/requirements.txt", r"(?m)^{}==(\S+)$"),
    "node": ("node/package.json", r'"{}": "(?:npm:redlock@)?([^"]+)"'),
    "go": ("go/go.mod", r"(?m)^\t{} v(\S+)$"),
    "java": ("java/pom.xml", r"<{}\.version>([^<]+)<"),
}


@dataclass(frozen=True)
class Case:
    """A lock of a library, and what the commands say and do about it.

    Attributes:
        library: The library, and how it is used.
        language: In which program it runs.
        verb: What the program calls it.
        key: Its key, or the first one.
        stores: What it stores, in words.
        held_by: How ``ls`` names its holder, without what is random.
        notes: What ``ls`` adds.
        freed: What ``unlock`` adds, once it has freed it.
        waits: How its clients wait.
        leak: Whether ``leaks`` lists it, since it never expires.
        package: What the file with the versions calls it, if that is not the verb.
    """

    library: str
    language: str
    verb: str
    key: str
    stores: str
    held_by: str
    freed: str
    waits: str
    notes: tuple[str, ...] = ()
    leak: bool = False
    package: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether only a lock of this library looks like this, whether or not it expires."""
        return not any("may be" in note for note in self.notes)

    @property
    def version(self) -> str:
        """The version that is tested."""
        file, pattern = _VERSIONS[self.language]
        found = re.search(pattern.format(re.escape(self.package or self.verb)), (_HERE / file).read_text())
        assert found is not None, self.verb
        return found[1]


def _polls(name: str, how: str) -> str:
    return f"those of {name} ask again {how}"


CASES = (
    Case(
        "python-redis-lock",
        "python",
        "python-redis-lock",
        "lock:NAME",
        "24 base64 characters, without expiry",
        "python-redis-lock",
        "notified 1 client of python-redis-lock",
        "by BLPOP",
        leak=True,
        notes=("never expires",),
    ),
    Case(
        "python-redis-lock, `expire=60`",
        "python",
        "python-redis-lock-expire",
        "lock:NAME",
        "24 base64 characters",
        "python-redis-lock",
        "notified 1 client of python-redis-lock",
        "by BLPOP",
        package="python-redis-lock",
    ),
    Case(
        "pottery",
        "python",
        "pottery",
        "redlock:NAME",
        "a UUID",
        "?",
        f"{_polls('pottery', 'within 0.2 s')}; {_polls('RedLock.net', 'after the retry time of the program')}",
        "by polling",
        notes=("a lock of pottery or RedLock.net",),
    ),
    Case(
        "sherlock",
        "python",
        "sherlock",
        "NAME",
        "a UUID",
        "?",
        f"{_UNKNOWN}{_polls('sherlock', 'every 0.1 s')}",
        "by polling",
        notes=("a string that may be a lock of sherlock",),
    ),
    Case(
        "redis-py's `Lock`",
        "python",
        "redis-py",
        "NAME",
        "a version 1 UUID as 32 hexadecimal digits",
        "redis-py",
        _polls("redis-py", "every 0.1 s"),
        "by polling",
        package="redis",
    ),
    Case(
        "django-redis' `cache.lock()`",
        "python",
        "django-redis",
        ":1:NAME",
        "as redis-py's `Lock`",
        "redis-py",
        _polls("redis-py", "every 0.1 s"),
        "by polling",
    ),
    Case(
        "celery-once",
        "python",
        "celery-once",
        "qo_NAME",
        "as redis-py's `Lock`",
        "celery-once",
        "those of celery-once do not wait: they refuse the task",
        "not at all",
    ),
    Case(
        "redlock (node-redlock)",
        "node",
        "redlock-4",
        "NAME",
        "16 bytes as hexadecimal digits",
        "?",
        f"{_UNKNOWN}{_polls('node-redlock', 'within 0.3 s')}; {_polls('redlock-universal', 'every 0.1 s')}",
        "by polling",
        notes=("a string that may be a lock of node-redlock or redlock-universal",),
        package="redlock",
    ),
    Case(
        "redlock (node-redlock)",
        "node",
        "redlock-5",
        "NAME",
        "16 bytes as hexadecimal digits",
        "?",
        f"{_UNKNOWN}{_polls('node-redlock', 'within 0.3 s')}; {_polls('redlock-universal', 'every 0.1 s')}",
        "by polling",
        notes=("a string that may be a lock of node-redlock or redlock-universal",),
    ),
    Case(
        "redlock-universal",
        "node",
        "redlock-universal",
        "NAME",
        "16 bytes as hexadecimal digits",
        "?",
        f"{_UNKNOWN}{_polls('node-redlock', 'within 0.3 s')}; {_polls('redlock-universal', 'every 0.1 s')}",
        "by polling",
        notes=("a string that may be a lock of node-redlock or redlock-universal",),
    ),
    Case(
        "redis-semaphore, `Mutex`",
        "node",
        "redis-semaphore-mutex",
        "mutex:NAME",
        "a UUID",
        "redis-semaphore",
        _polls("redis-semaphore", "every 0.01 s"),
        "by polling",
        package="redis-semaphore",
    ),
    Case(
        "redsync",
        "go",
        "redsync",
        "NAME",
        "16 bytes in base64",
        "?",
        f"{_UNKNOWN}{_polls('redsync', 'within 0.25 s')}",
        "by polling",
        notes=("a string that may be a lock of redsync",),
        package="github.com/go-redsync/redsync/v4",
    ),
    Case(
        "redislock (bsm)",
        "go",
        "redislock",
        "NAME",
        "16 bytes in base64 for URLs",
        "?",
        f"{_UNKNOWN}those of redislock ask again as their retry strategy says",
        "by polling",
        notes=("a string that may be a lock of redislock",),
        package="github.com/bsm/redislock",
    ),
    Case(
        "rueidislock",
        "go",
        "rueidislock",
        "rueidislock:0:NAME",
        "24 random bytes, in three keys",
        "rueidislock",
        "those of rueidislock are notified by the server",
        "by client-side caching",
        notes=("3 keys, one lock",),
        package="github.com/redis/rueidis",
    ),
    Case(
        "ShedLock",
        "java",
        "shedlock",
        "job-lock:default:NAME",
        "`ADDED:TIME@HOST:UUID`",
        "",
        "those of ShedLock do not wait: they ask again when the job is due again",
        "not at all",
    ),
    Case(
        "Spring's `RedisLockRegistry`, `PUB_SUB_LOCK`",
        "java",
        "spring-pubsub",
        "REGISTRY:NAME",
        "a UUID",
        "?",
        "notified 1 client of Spring Integration",
        "by pub/sub",
        notes=("a string that may be a lock of sherlock or Spring Integration",),
        package="spring",
    ),
    Case(
        "Spring's `RedisLockRegistry`, `SPIN_LOCK`",
        "java",
        "spring-spin",
        "REGISTRY:NAME",
        "a UUID",
        "?",
        f"{_UNKNOWN}{_polls('sherlock', 'every 0.1 s')}; those of Spring Integration wait for a message, or ask again "
        "every 0.1 s in spin mode",
        "by polling",
        notes=("a string that may be a lock of sherlock or Spring Integration",),
        package="spring",
    ),
)

#: What is no lock, and is left alone.
SEMAPHORE = Case(
    "redis-semaphore, `Semaphore`",
    "node",
    "redis-semaphore",
    "semaphore:NAME",
    "a sorted set of UUIDs",
    "1 taken",
    "",
    "by polling",
    notes=("no lock: the key holds a sorted set, as a semaphore of redis-semaphore is",),
)
