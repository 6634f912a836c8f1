"""What pages and events show: locks, queues, history; names of any content; many locks; a server that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from starlette.requests import Request

from pyredisson._tools.web.app import Access, Site
from pyredisson._tools.web.pages import PAGE, Pages
from pyredisson._tools.web.watcher import Watcher
from tests.web.scenes import SERVER, RunningSite, Scene, client, lock, until, waiter, who

Start = Callable[..., RunningSite]

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)" x=\'',
    "entity": "&lt;b&gt;&#60;script&#62;",
    "template": "{{ 7 * 7 }}{% raw %}",
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "right to left": "\u202egpj.exe\u2066 שלום",
    "lines": "a\r\ndata: {}\n\nevent: x\n\u2028",
    "nul": "a\0b",
    "surrogate": "a\udc80b",
    "long": "x" * 65_536,
}


def check_harmless(page: str) -> None:
    """Check that no name was read as HTML, as a template, or by a terminal that prints the page."""
    assert len(page) < 60_000
    ours = r"<script(?! src=\"/static/app\.js\" defer>)|<img(?! src=\"/static/)|<b>|onmouseover=\""
    assert not re.search(ours, page)
    assert not [each for each in page if each != "\n" and not each.isprintable()]
    assert ">49" not in page


# ---- names of any content --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_texts_of_any_content_are_harmless(start, text):
    owner = who(1, app=text, host=text, thread=text, reason=text, stack=(text, text))
    waits = waiter(who(2, app=text, host=text, thread=text), since=time.time())
    other = lock("other", who(2, host=text), waiters=(waiter(owner),))
    named = lock(text, owner, waiters=(waits,), notes=(text,), keys=(text,), node=text)
    scene = Scene(named, other)
    scene.clients = (client(1, app=text, host=text, version=text, addresses=(text,)),)
    scene.fields = {"errors": (text,)}
    site = start(scene)
    path = site.page_of(text)
    pages = [
        site.get("/").text,
        site.get(path).text,
        site.get("/", params={"q": text.encode("utf-8", "replace")[:5000]}).text,
    ]
    for each in ("/events", f"{path}/events"):
        with site.events(each) as events:
            event = next(events)
            pages += [
                *event["blocks"].values(),
                *(row for rows in event["lists"].values() for row in rows["rows"].values()),
            ]
    scene.error = ConnectionError(text)
    pages.append(until(lambda: "ConnectionError: " in (page := site.get("/").text) and page))
    for page in pages:
        check_harmless(page)


# ---- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_the_first_page_shows_locks_with_holders_and_waiters_and_clients(start):
    held = lock("orders", who(1, since=time.time() - 3 * 3600 - 305, remaining=20.0), waiting_clients=3, free_in=20.0)
    stale = lock("stale", who(7, connected=False), never_expires=True)
    text = start(Scene(held, stale, lock("free", permits=3, kind="semaphore"))).get("/").text
    for shown in ("orders", "web@host-1 pid 1001 t1", "3 h 5 min", "never expires", "3 free", "host-2"):
        assert shown in text, shown


def test_a_lock_has_a_page_with_its_queue(start):
    queue = (
        waiter(who(2), kind="fair_lock", place=1, since=time.time() - 12),
        waiter(who(3), kind="fair_lock", place=2, expired=True),
    )
    fair = lock(
        "orders", who(1, holds=2, watchdog=True), waiters=queue, kind="fair_lock", keys=("orders", "q:{orders}")
    )
    site = start(Scene(fair))
    text = site.get(site.page_of("orders")).text
    for shown in (
        "fair lock",
        "host-1",
        "its watchdog",
        "host-2",
        "silent, probably dead",
        "q:{orders}",
        "when first seen",
    ):
        assert shown in text, shown


def test_a_lock_that_was_never_seen_has_no_page(start):
    site = start(Scene())
    for path in ("/lock/00000000000000000000", "/lock/" + "x" * 3000):
        response = site.get(path)
        assert response.status_code == 404
        assert "No such lock" in response.text


@pytest.mark.quick
def test_locks_are_searched_and_sorted(start):
    now = time.time()
    locks = (
        lock("a", who(1, since=now - 10), waiting_clients=1),
        lock("b", who(2, since=now - 99), kind="fair_lock"),
        lock("c", waiting_clients=5),
    )
    site = start(Scene(*locks))

    def names(**query):
        return re.findall(
            r'<a href="/lock/\w+"><bdi>(\w+)</bdi>', site.get("/", params=query).text.split('id="locks"')[1]
        )

    assert names() == ["c", "a", "b"]
    assert names(sort="name") == ["a", "b", "c"]
    assert names(sort="since") == ["b", "a", "c"]
    assert names(q="HOST-2") == ["b"]
    assert names(kind="fair_lock") == ["b"]
    assert names(show="held", sort="name") == ["a", "b"]
    assert names(show="waiting") == ["c", "a"]
    assert names(q="nothing of this") == []
    assert names(sort="wrong", kind="wrong", show="wrong", page="-1") == ["c", "a", "b"]


def test_a_latch_is_open_or_closed(start):
    site = start(
        Scene(
            lock("shut", kind="count_down_latch", count=4, waiting_clients=1),
            lock("done", kind="count_down_latch", count=0, waiting_clients=1),
        )
    )
    parts = site.get("/").text.split("<tr ")
    rows = [row for row in (part.split("</tr>")[0] for part in parts) if "/lock/" in row]
    assert [("closed" in row, "open" in row, "count 4" in row, ">free<" in row) for row in rows] == [
        (False, True, False, False),
        (True, False, True, False),
    ]
    page = site.get(site.page_of("shut")).text
    assert '<span class="tag">closed</span>' in page
    assert '<span class="tag">free</span>' not in page


def test_what_happened_to_a_lock_is_kept(start):
    scene = Scene(lock("orders", who(1)))
    site = start(scene)
    path = site.page_of("orders")
    with site.events(f"{path}/events") as events:
        scene.locks = (lock("orders", who(2)),)
        until(lambda: "acquired it" in next(events)["blocks"].get("history", ""))
        scene.locks = ()
        until(lambda: "It is not held" in next(events)["blocks"].get("facts", ""))
    text = site.get(path).text
    assert re.findall(r"host-(\d).*?(acquired it|no longer|when first)", text.split('id="history"')[1], re.DOTALL) == [
        ("2", "no longer"),
        ("2", "acquired it"),
        ("1", "no longer"),
        ("1", "when first"),
    ]


def test_an_incomplete_look_ends_no_hold(start):
    scene = Scene(lock("a", who(1)), lock("b", who(2)))
    site = start(scene)
    path = site.page_of("b")
    with site.events() as events:
        scene.fields, scene.locks = {"complete": False}, (lock("a", who(3)),)
        until(lambda: "some locks may be missing" in next(events)["blocks"].get("alerts", ""))
        scene.fields, scene.locks = {}, (lock("a", who(3)), lock("b", who(2)))
        until(lambda: next(events)["blocks"].get("alerts") == "")
    text = site.get(path).text
    assert "held it when first seen" in text
    assert "acquired it" not in text
    assert "no longer holds it" not in text


@pytest.mark.quick
def test_deadlocks_are_shown_in_red(start):
    one, other = who(1), who(2)
    scene = Scene(lock("a", one, waiters=(waiter(other),)), lock("b", other, waiters=(waiter(one),)))
    text = start(scene).get("/").text
    assert "1 cycle of owners" in text
    assert text.count('<span class="tag bad">deadlock</span>') == 2
    assert text.count('<g class="cycle">') == 4  # Two owners, two waits.
    assert text.count('<li class="cycle">') == 2
    text = start(Scene(lock("a", one, waiters=(waiter(other),)))).get("/").text
    assert '<g class="cycle">' not in text
    assert "<rect" in text


# ---- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_events_contain_what_changed(start):
    scene = Scene(*(lock(f"lock:{number}", who(1)) for number in range(50)))
    site = start(scene)
    with site.events() as events:
        first = next(events)
        assert len(first["lists"]["locks"]["rows"]) == 50
        assert {"tiles", "status", "waits", "graph"} <= set(first["blocks"])
        quiet = next(events)
        # Every 20 s the chart of waits begins a new bucket.
        assert set(quiet["blocks"]) - {"waits"} == {"status"}
        assert quiet["lists"] == {}
        scene.locks = (*scene.locks[:-1], lock("lock:49", who(2)))
        changed = until(lambda: next(events)["lists"].get("locks"))
        assert len(changed["rows"]) == 1
        assert "host-2" in next(iter(changed["rows"].values()))
        assert len(changed["order"]) == 50


def test_ten_thousand_locks_are_shown_in_pages(start):
    scene = Scene(*(lock(f"lock:{number:05}", who(number % 50, number)) for number in range(10_000)))
    site = start(scene, interval=0.2)
    page = site.get("/", params={"sort": "name"})
    until(lambda: site.watcher.seen)
    page = site.get("/", params={"sort": "name"})
    assert "of 10,000" in page.text
    assert "Page 1 of 100" in page.text
    assert len(page.content) < 150_000
    assert page.text.count("data-key=") == PAGE + 2
    last = site.get("/", params={"sort": "name", "page": "100"})
    assert "lock:09999" in last.text
    assert "Page 100 of 100" in site.get("/", params={"page": "99999"}).text
    with site.events("/events?sort=name") as events:
        assert len(json.dumps(next(events))) < 120_000
        scene.locks = (*scene.locks[:-1], replace(scene.locks[-1], name="another"))  # On another page.
        assert len(json.dumps(next(events))) < 10_000


def test_many_holders_and_waiters_of_one_lock_are_capped(start):
    crowd = tuple(waiter(who(number, 2)) for number in range(3_000))
    site = start(
        Scene(lock("orders", *(who(number) for number in range(1_000)), waiters=crowd, waiting_clients=3_000)),
        interval=0.5,
    )
    page = site.get(site.page_of("orders"))
    assert "The first 200 of 1000" in page.text
    assert "The first 200 of 3000" in page.text
    assert len(page.content) < 300_000
    assert len(site.get("/").content) < 150_000


# ---- one loop, and none without viewers ------------------------------------------------------------------------------


def test_many_viewers_share_the_looks(start):
    scene = Scene(lock("orders", who(1)))
    site = start(scene, interval=0.1)
    with site.events() as one, site.events() as two, site.events("/events?sort=name") as three:
        began, looks = time.monotonic(), scene.looks
        for _ in range(5):
            for events in (one, two, three):
                next(events)
        assert scene.looks - looks <= (time.monotonic() - began) / 0.1 + 1


def test_it_stops_to_look_when_the_last_page_is_closed(start, monkeypatch):
    monkeypatch.setattr("pyredisson._tools.web.watcher.LINGER_SECONDS", 0.0)
    scene = Scene(lock("orders", who(1)))
    site = start(scene)
    assert scene.looks == 0
    with site.events() as events:
        for _ in range(3):
            next(events)
        assert site.watcher.viewers == 1
    until(lambda: site.watcher.viewers == 0, what="the closed page is noticed")
    until(lambda: site.watcher.resting, what="the loop rests")
    looks = scene.looks
    with site.events() as events:
        until(lambda: scene.looks > looks and next(events))


def test_a_slow_look_is_followed_by_a_longer_pause(start):
    scene = Scene()
    times = []

    def slow():
        times.append(time.monotonic())
        time.sleep(0.05)
        return Scene.take(scene)

    scene.take = slow
    start(scene, interval=0.001, always=True)
    until(lambda: len(times) > 3)
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.25


# ---- a server that goes away -----------------------------------------------------------------------------------------


@pytest.mark.quick
def test_a_server_that_goes_away_is_shown_and_recovers(start):
    scene = Scene(lock("orders", who(1)))
    site = start(scene)
    with site.events() as events:
        assert "orders" in str(next(events)["lists"])
        scene.error = ConnectionError("Error 111 connecting to redis.example:6379. Connection refused.")
        away = until(lambda: next(events)["blocks"].get("alerts"))
        assert "has not answered since" in away
        assert "Connection refused" in away
        page = site.get("/").text
        assert "has not answered since" in page
        assert "orders" in page  # What was seen last.
        scene.error = None
        until(lambda: next(events)["blocks"].get("alerts") == "")
    assert "has not answered" not in site.get("/").text


def test_a_look_without_any_answer_shows_what_was_seen_before(start):
    scene = Scene(lock("orders", who(1)))
    site = start(scene)
    with site.events() as events:
        next(events)
        scene.locks, scene.fields = (), {"errors": ("ConnectionError: refused",), "complete": False, "keys_seen": 0}
        until(lambda: "has not answered since" in next(events)["blocks"].get("alerts", ""))
    assert "orders" in site.get("/").text


def test_a_server_that_was_never_there_is_shown(start):
    scene = Scene()
    scene.error = ConnectionError("refused")
    text = start(scene).get("/").text
    assert "The server does not answer" in text
    assert "ConnectionError: refused" in text


def test_a_server_that_does_not_answer_delays_no_page(start, monkeypatch):
    monkeypatch.setattr("pyredisson._tools.web.app.FIRST_LOOK_SECONDS", 0.05)
    scene = Scene()
    hanging = time.monotonic() + 1
    scene.take = lambda: time.sleep(max(0.0, hanging - time.monotonic())) or Scene.take(scene)
    assert "The first look at the server is in progress" in start(scene).get("/").text


def test_a_burst_of_streams_is_refused_too(monkeypatch):
    """All requests are answered before the first stream begins; then the viewers leave."""
    monkeypatch.setattr("pyredisson._tools.web.app.MAX_STREAMS", 3)
    watcher = Watcher(Scene().take, interval=60.0, always=False)
    site = Site(watcher, Pages(watcher, server=SERVER, form_token=None), Access(None, frozenset(), 80))
    scope = {"type": "http", "method": "GET", "query_string": b"", "headers": []}

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        raise OSError("the viewer has left")

    async def burst():
        responses = [await site._overview_events(Request(scope)) for _ in range(5)]
        for each in responses:
            with contextlib.suppress(Exception):
                await each(scope, receive, send)
        return [each.status_code for each in responses]

    assert asyncio.run(burst()) == [200, 200, 200, 503, 503]
    assert asyncio.run(burst()) == [200, 200, 200, 503, 503]
