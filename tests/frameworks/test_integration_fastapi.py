"""``pyredisson.integrations.fastapi``: the program of its page under uvicorn, and requests that end in other ways."""

from __future__ import annotations

import http.client
import os
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.frameworks.common import ROOT, Response, Site, Surroundings, require
from tests.frameworks.page_programs import save_programs
from tests.servers import HOST, Server
from tests.waiting import until

WORKERS = 4
#: Well under the lease of 30 s: it was released, and did not just expire.
SOON = 10.0


class Program:
    """uvicorn with the program of the page."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        save_programs("fastapi", surroundings.folder, surroundings.url)
        for order in (7, 8):
            (surroundings.folder / f"stock-{order}").write_text("100000")
        self.site: Site = surroundings.site(
            *("-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--workers", str(WORKERS), "--no-access-log"),
            "tests.frameworks.apps.integration_fastapi:app",
            environment={"PYTHONPATH": os.pathsep.join([str(ROOT), str(surroundings.folder)])},
        )

    def post(self, path: str) -> Response:
        """Send a POST request without a body."""
        connection = http.client.HTTPConnection(HOST, self.site.port, timeout=30)
        try:
            connection.request("POST", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return Response(response.status, response.read().decode())
        finally:
            connection.close()

    def wait_for(self, line: str, count: int = 1) -> None:
        """Wait until the program has noted a line that many times."""
        until(lambda: self.surroundings.notes().count(line) >= count, SOON, what=f"{line!r} is noted")


@pytest.fixture(scope="module")
def program(module_surroundings: Surroundings) -> Iterator[Program]:
    """One program for the tests of this file. At its end it leaves nothing in Redis."""
    require("uvicorn", "fastapi")
    program = Program(module_surroundings)
    yield program
    assert program.site.stop() in (0, -signal.SIGTERM)
    with module_surroundings.server.client() as redis:
        assert list(redis.scan_iter(match="*order:[78]*")) == []


def test_the_page_runs_as_printed(open_page):
    page = open_page("fastapi")
    page.run("echo")
    page.serve("uvicorn", "--port {port}", ready="Application startup complete")
    page.run("curl")
    page.run("seq")
    page.run("cat")
    page.check_all_entered()


@pytest.mark.volume
def test_no_two_requests_get_the_same_number(program, volume):
    count = volume(200, full=2000)
    paths = ["/orders/7/ship", "/orders/07/pack", "/orders/8/ship", "/orders/8/pack"] * (count // 4)
    with ThreadPoolExecutor(24) as pool:
        replies = list(pool.map(program.post, paths))
    assert {reply.status for reply in replies} == {200}, program.site.output()[-3000:]
    for order in (7, 8):
        left = sorted((reply.json for reply, path in zip(replies, paths, strict=True) if f"{order}/" in path))
        assert left == list(range(100_000 - count // 2, 100_000))


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_a_client_that_goes_away_frees_its_lock(program, reset):
    begun = program.surroundings.notes().count("begun")
    acquired = program.surroundings.notes().count("acquired")
    connection = program.site.begin("/slow/a")
    program.wait_for("begun", begun + 1)
    waiting = program.site.begin("/waiting/a")
    connection.close(reset=reset)
    program.wait_for("acquired", acquired + 1)
    waiting.close()
    until(lambda: not program.surroundings.keys(), SOON, what="the lock is released")


def test_a_client_that_goes_away_while_it_waits_does_not_acquire_the_lock(program):
    before = program.surroundings.notes()
    holder = program.site.begin("/slow/b")
    program.wait_for("begun", before.count("begun") + 1)
    waiter = program.site.begin("/waiting/b")

    def waits() -> bool:
        return any(key.startswith("pyredisson_waiting:") for key in program.surroundings.keys())  # noqa: SIM118

    until(waits, SOON, what="the request waits")
    waiter.close()
    until(lambda: not waits(), SOON, what="the request waits no longer")
    holder.close()
    until(lambda: not program.surroundings.keys(), SOON, what="the lock is released")
    assert program.surroundings.notes().count("acquired") == before.count("acquired")


def test_errors_have_a_status_and_do_not_show_the_holder(program):
    begun = program.surroundings.notes().count("begun")
    holder = program.site.begin("/slow/c")
    program.wait_for("begun", begun + 1)
    busy = program.site.get("/slow/c")
    assert busy.status == 409
    assert busy.json == {"detail": "busy: another request is being processed, try again later"}
    holder.close()
    lost = program.site.get("/lost/d")
    assert lost.status == 423
    assert lost.json == {"detail": "the lock was lost while the request was processed"}


def test_a_name_is_made_of_a_query_parameter_of_its_type(program):
    assert f"{program.surroundings.name}:7'" in program.site.get("/query?number=007").json
    assert program.site.get("/query?number=seven").status == 422
    assert program.site.get("/query").status == 422
    assert program.site.get("/text?name=").status == 422
    assert program.site.get("/starlette/12").json is False


def test_a_background_task_is_not_cancelled_by_the_end_of_the_response(program):
    ended = program.surroundings.notes().count("background task ended")
    assert program.site.get("/background/e").status == 200
    program.wait_for("background task ended", ended + 1)


def test_without_a_server_the_status_is_503(own_surroundings):
    require("uvicorn", "fastapi")
    program = Program(own_surroundings)
    server: Server = own_surroundings.server
    server.kill()
    reply = program.post("/orders/7/ship")
    assert reply.status == 503
    assert reply.json == {"detail": "the lock server cannot be reached, try again later"}


def test_without_the_lifespan_the_error_says_what_to_add():
    fastapi = pytest.importorskip("pyredisson.integrations.fastapi")
    from starlette.requests import Request

    with pytest.raises(RuntimeError, match="lifespan=pyredisson"):
        fastapi.client_of(Request({"type": "http"}))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": name} for name in ("{", "", "order:{}", "order:{0}")),
        {"name": "a", "kind": "b"},
        {"name": "a", "wait_time": "soon"},
    ],
)
def test_a_wrong_argument_is_refused_when_the_dependency_is_made(wrong):
    fastapi = pytest.importorskip("pyredisson.integrations.fastapi")
    with pytest.raises((TypeError, ValueError)):
        fastapi.lock(**wrong)


def test_a_mounted_application_needs_handlers_of_its_own(valkey, unique_name):
    require("fastapi", "httpx")
    from fastapi import Depends, FastAPI

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It would rather have another httpx.
        from fastapi.testclient import TestClient

    from pyredisson import Redisson
    from pyredisson.integrations.fastapi import add_exception_handlers, lifespan, lock

    app, inner = FastAPI(lifespan=lifespan(valkey.url)), FastAPI()
    add_exception_handlers(app)
    app.mount("/inner", inner)

    @app.get("/locked", dependencies=[Depends(lock(unique_name))])
    @inner.get("/locked", dependencies=[Depends(lock(unique_name))])
    def locked() -> None: ...

    with (
        Redisson.from_url(valkey.url) as other,
        other.get_lock(unique_name),
        TestClient(app, raise_server_exceptions=False) as web,
    ):
        assert web.get("/locked").status_code == 409
        assert web.get("/inner/locked").status_code == 500
        add_exception_handlers(inner)
        inner.middleware_stack = None  # It is made at the first request.
        assert web.get("/inner/locked").status_code == 409
