"""Coroutines of the core that are run side by side, without any server."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest
import redis.exceptions as rx

from pyredisson.core.driver import run, together
from pyredisson.core.failures import NotSent
from pyredisson.core.runtime import Ask, Runtime
from pyredisson.errors import LockError
from tests.unit.fake import FakeRuntime

AskT = TypeVar("AskT", bound=Ask)


class Question(Ask):
    """A request that is only a word."""

    def __await__(self) -> Generator[Question, None, Any]:
        yield self
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@dataclass
class Servers(FakeRuntime):
    """Servers that answer by a function, and note in which order they were asked."""

    says: Callable[[Any], Any] = lambda request: request
    waves: list[list[Any]] = field(default_factory=list)

    async def fan_out(self, asks: Iterable[AskT]) -> list[AskT]:
        self.waves.append(wave := [])
        made = []
        for ask in asks:
            wave.append(ask.request)
            made.append(ask)
        for ask in made:
            ask.answer = self.says(ask.request)
        return made

    def ask(self, word: str) -> Question:  # type: ignore[override]
        return Question(cast("Runtime", self), word, 1.0)


async def spell(servers: Servers, *words: str) -> str:
    return " ".join([await servers.ask(word) for word in words])


def test_the_results_are_in_order_however_long_each_takes() -> None:
    servers = Servers()
    words = [("a", "b", "c"), (), ("d",), ("e", "f")]
    spelt = run(together(cast("Runtime", servers), (spell(servers, *each) for each in words)))
    assert spelt == ["a b c", "", "d", "e f"]
    assert [wave for wave in servers.waves if wave] == [["a", "d", "e"], ["b", "f"], ["c"]]


def test_an_error_of_ours_is_the_result_of_the_one_that_failed() -> None:
    errors = {"b": NotSent(rx.ConnectionError("refused")), "c": LockError("not yours")}
    servers = Servers(says=lambda word: errors.get(word, word))
    found = run(together(cast("Runtime", servers), [spell(servers, word) for word in "abcd"]))
    assert found == ["a", errors["b"], errors["c"], "d"]


@pytest.mark.parametrize("where", ["sending", "beginning", "ending"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, GeneratorExit])
def test_an_interruption_ends_all_of_them_and_is_raised(error: type[BaseException], where: str) -> None:
    ended: list[str] = []
    interruption = error()

    async def work(word: str) -> None:
        try:
            if (word, where) == ("b", "beginning"):
                raise interruption
            await servers.ask(word)
            if (word, where) == ("b", "ending"):
                raise interruption
            await servers.ask(word)
        finally:
            ended.append(word)

    def says(word: str) -> str:
        if word == "c" and where == "sending":
            raise interruption
        return word

    servers = Servers(says=says)
    with pytest.raises(error) as caught:
        run(together(cast("Runtime", servers), map(work, "abc")))
    assert caught.value is interruption
    assert sorted(ended) == ["a", "b"] if where == "beginning" else ["a", "b", "c"]
