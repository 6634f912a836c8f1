"""How a client goes on asking a server that does not answer a request as it should, without any server."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure, NotNow, Unanswered
from pyredisson._core.runtime import Reply, Request, run
from pyredisson._kinds.lock import LockCore
from pyredisson._kinds.semaphores import SemaphoreCore
from pyredisson.config import Config
from pyredisson.errors import OutcomeUnknownError
from tests.unit.fake import FakeRuntime

TIMEOUT = 1.5

each_way = pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda client: LockCore(client, "orders").try_lock(0.0), id="lock"),
        pytest.param(lambda client: SemaphoreCore(client, "orders").acquire(1, 0.0), id="semaphore"),
    ],
)

Take = Callable[[ClientCore], Coroutine[Any, Any, bool]]


@dataclass
class Slow(FakeRuntime):
    """A server that takes a little to say always the same; whoever gives it less time hears nothing."""

    says: Failure | None = None
    given: list[float] = field(default_factory=list)

    async def eval(self, request: Request, timeout: float) -> Reply:
        self.given.append(timeout)
        assert self.says is not None
        self.pass_time(min(timeout, 0.05))
        raise self.says if timeout > 0.05 else Unanswered(rx.TimeoutError("no reply"))


@each_way
def test_a_server_that_says_not_now_is_asked_until_the_time_is_over_but_never_in_haste(take):
    runtime = Slow(says=NotNow(rx.ReadOnlyError("READONLY")))
    client = ClientCore(runtime, Config(timeout=TIMEOUT))
    began = runtime.time
    with pytest.raises(rx.ReadOnlyError):
        run(take(client))
    assert 0.6 * TIMEOUT < runtime.time - began <= TIMEOUT
    assert min(runtime.given) >= TIMEOUT / 3 / 4
    assert len(runtime.given) > 3


@dataclass
class Unreachable(FakeRuntime):
    """A server that loses its first reply, and to which no connection can be made any more."""

    lost: Failure | None = field(default_factory=lambda: Unanswered(rx.ConnectionError("Protocol error")))

    async def eval(self, request: Request, timeout: float) -> Reply:
        self.pass_time(0.05)
        failure, self.lost = self.lost or NotNow(rx.TimeoutError("no connection in time")), None
        raise failure


@each_way
def test_an_unknown_outcome_is_explained_by_the_request_that_was_sent(take):
    client = ClientCore(Unreachable(), Config(timeout=TIMEOUT))
    with pytest.raises(OutcomeUnknownError, match="Protocol error") as error:
        run(take(client))
    assert isinstance(error.value.__cause__, rx.ConnectionError)
