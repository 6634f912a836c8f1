"""Workers and beats of Celery, with a broker of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.frameworks.common import Program, Surroundings
from tests.servers import VALKEY, SharedServers
from tests.waiting import until

WITHIN = 40.0


class Workers:
    """A queue, with workers and beats of its own."""

    def __init__(self, app: str, surroundings: Surroundings, broker: str) -> None:
        self.app = app
        self.surroundings = surroundings
        self._environment = {"PYREDISSON_TEST_BROKER": broker}
        self.started: list[Program] = []

    def start(self, *options: str, ready: str) -> Program:
        program = self.surroundings.program("-m", "celery", "-A", self.app, *options, environment=self._environment)
        self.started.append(program)
        until(lambda: ready in program.output() or not program.running(), WITHIN, what=f"{ready!r} is logged")
        assert program.running(), program.output()
        return program

    def worker(self, *options: str, name: str = "one") -> Program:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
        return self.start("worker", *quiet, "-n", f"{name}@%h", *options, ready=" ready.")

    def beat(self) -> Program:
        return self.start("beat", "-S", f"{self.app}:Beat", "--loglevel", "INFO", "--pidfile=", ready="beat: Starting")

    def begin(self, calls: str) -> Program:
        """Start a program that calls tasks."""
        return self.surroundings.program("-c", f"from {self.app} import *\n{calls}", environment=self._environment)

    def send(self, calls: str) -> None:
        """Send tasks by a program of their own."""
        done = self.begin(calls)
        assert done.wait(WITHIN) == 0, done.output()

    def noted(self, beginning: str) -> list[str]:
        return [each for each in self.surroundings.notes() if each.startswith(beginning)]

    def until_noted(self, beginning: str, times: int = 1) -> list[str]:
        """Wait until tasks have noted something that often."""
        return until(
            lambda: (found := self.noted(beginning))[times - 1 :] and found, WITHIN, what=f"{beginning} × {times}"
        )

    def stop(self) -> None:
        for program in self.started:
            if program.running():
                assert program.stop() == 0, program.output()


@contextmanager
def workers_of(
    app: str, surroundings: Surroundings, shared_servers: SharedServers, *, database: int
) -> Iterator[Workers]:
    """A queue for an application."""
    # A broker of its own: tests may pause the other server, and Celery times its limits between requests.
    broker = shared_servers.get(VALKEY, 1)
    try:
        yield Workers(app, surroundings, f"{broker.url.rsplit('/', 1)[0]}/{database}")
    finally:
        with broker.client(db=database) as client:
            client.flushdb()
