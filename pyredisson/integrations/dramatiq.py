"""Actors of Dramatiq that run once at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pyredisson._core.deadline import Seconds, delay_seconds
from pyredisson._shared.arguments import Extra
from pyredisson._shared.synchronized import Key
from pyredisson._threads.client import Redisson

with Extra("dramatiq"):
    from dramatiq import Middleware
    from dramatiq.middleware import MiddlewareError, SkipMessage

if TYPE_CHECKING:
    from dramatiq import Actor, Broker
    from dramatiq.broker import MessageProxy

    from pyredisson._threads.hold import Hold
    from pyredisson.lease import Lease

__all__ = ["SingletonError", "Singletons"]


class SingletonError(MiddlewareError, ValueError):
    """The options of an actor are not valid, or the lock of a message is not available.

    Dramatiq would only log any other error of a middleware, and run the actor without its lock.
    """


class Singletons(Middleware):
    """The middleware for actors that run once at a time, or once at a time for each key.

    Example::

        broker.add_middleware(Singletons(client))

        @dramatiq.actor(singleton="invoice:{order_id}", when_busy="wait")
        def send_invoice(order_id): ...

    It adds these options to actors:

    - ``singleton``: the lock's name, with fields of the actor's parameters as in ``str.format``.
    - ``when_busy``: ``"skip"`` (the default) drops a message whose lock is held. ``"wait"`` sends it again for
      later, so that it does not occupy a worker.

    Args:
        client: The client, made when the module is imported.
        retry_in: Seconds after which a message that waits is tried again; up to half as many are added at random.

    Raises:
        TypeError, ValueError: ``retry_in`` is not valid.
    """

    def __init__(self, client: Redisson, *, retry_in: Seconds = 1.0) -> None:
        self._client = client
        self._retry_in = delay_seconds(retry_in, "retry_in")
        self._keys: dict[str, Key] = {}
        self._holds: dict[str, Hold[Lease[None] | None]] = {}

    @property
    def actor_options(self) -> set[str]:
        """The options that it adds to actors."""
        return {"singleton", "when_busy"}

    def before_declare_actor(self, broker: Broker, actor: Actor[..., Any]) -> None:
        """Check the options of an actor.

        Raises:
            SingletonError: ``singleton`` or ``when_busy`` is not valid.
        """
        template, when_busy = actor.options.get("singleton"), actor.options.get("when_busy", "skip")
        if when_busy not in ("skip", "wait"):
            raise SingletonError(f"when_busy must be 'skip' or 'wait', not {when_busy!r}")
        if template is not None:
            try:
                self._keys[actor.actor_name] = Key(template, actor.fn)
            except (TypeError, ValueError) as error:
                raise SingletonError(str(error)) from error

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Acquire the lock, or drop the message here.

        Raises:
            SkipMessage: The lock is held.
            SingletonError: It is not available or has no name, or the message could not be sent again. The message
                fails as by an error of the actor.
        """
        key = self._keys.get(message.actor_name)
        if key is None:
            return
        try:
            hold = self._client.get_lock(key.of(tuple(message.args), message.kwargs)).hold(0, skip=True)
            if hold.__enter__() is not None:
                self._holds[message.message_id] = hold
                return
            if broker.get_actor(message.actor_name).options.get("when_busy") == "wait":
                self._send_again(broker, message)
        except Exception as error:
            raise SingletonError(f"the lock of {message.actor_name} is not available: {error}") from error
        raise SkipMessage("the lock is held")

    def after_process_message(
        self, broker: Broker, message: MessageProxy, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        """Release the lock."""
        hold = self._holds.pop(message.message_id, None)
        if hold is not None:
            hold.__exit__(None, None, None)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Release the lock of a message that another middleware skipped."""
        self.after_process_message(broker, message)

    def _send_again(self, broker: Broker, message: MessageProxy) -> None:
        broker.enqueue(message.copy(), delay=round(1000 * self._retry_in * random.uniform(1.0, 1.5)))
