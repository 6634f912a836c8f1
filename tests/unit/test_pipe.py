"""The tasks of an event loop share a connection: their requests leave in few writes, and in order."""

import asyncio
import gc
import math
import weakref
from types import SimpleNamespace

import pytest

from pyredisson._asyncio.pipe import TOGETHER, Pipe, TaskTicket


class Transport:
    """Notes what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def set_protocol(self, protocol: object) -> None: ...

    def write(self, data: bytes) -> None:
        self.writes.append(data)


async def test_the_requests_of_one_turn_leave_in_portions_while_more_are_made():
    """The server answers the first portion while the next one is made."""
    transport = Transport()
    pipe = Pipe(asyncio.get_running_loop())
    await pipe.adopt(asyncio.StreamReader(), SimpleNamespace(transport=transport))
    futures = [pipe.call(b"%d;" % number, 5.0) for number in range(2 * TOGETHER + 2)]
    assert len(transport.writes) == 3, "one request is alone at first; the last one waits for the end of the turn"
    await asyncio.sleep(0)
    sent = list(transport.writes)
    pipe.data_received(b"".join(b":%d\r\n" % number for number in range(len(futures))))
    replies = [await future for future in futures]
    assert replies == list(range(2 * TOGETHER + 2))
    assert [write.count(b";") for write in sent] == [1, TOGETHER, TOGETHER, 1]
    assert b"".join(sent) == b"".join(b"%d;" % number for number in range(len(replies)))


async def test_a_request_that_a_signal_handler_cancels_as_its_reply_arrives_keeps_no_other_reply():
    class Cancelled(asyncio.Future[object]):
        """It is cancelled between the question and the answer."""

        def done(self) -> bool:
            found = super().done()
            self.cancel()
            return found

    pipe = Pipe(asyncio.get_running_loop())
    await pipe.adopt(asyncio.StreamReader(), SimpleNamespace(transport=Transport()))
    pipe.post(b"first;", 5.0, Cancelled())
    second = pipe.call(b"second;", 5.0)
    pipe.data_received(b":1\r\n:2\r\n")
    assert await second == 2


@pytest.mark.parametrize("seconds", [60.0, math.inf])
async def test_a_task_to_which_nothing_else_refers_waits_until_it_is_notified(seconds):
    """Its event loop keeps it: what notifies it does not, such as a client, to which the task may refer."""
    ticket, results = TaskTicket(), []

    async def wait():
        results.append(await ticket.wait(seconds))

    task = weakref.ref(asyncio.create_task(wait()))
    await asyncio.sleep(0)
    gc.collect()
    assert task() is not None
    ticket.notify()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert results == [True]
    gc.collect()
    assert task() is None
