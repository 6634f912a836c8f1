"""Who may see the pages and free locks: hosts, origins, the token, and the headers of all answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.datastructures import Headers

from pyredisson._tools.web.app import Access, Outcome
from pyredisson.inspection import DOUBTFUL, LockView
from tests.web.scenes import RunningSite, Scene, lock, until, who

pytestmark = pytest.mark.quick

TOKEN = "the-token-of-the-test"
HOLDER = who(1)
ORDERS = lock("orders", HOLDER)

Start = Callable[..., RunningSite]


@contextmanager
def signed_in(start: Start, shown: LockView = ORDERS) -> Iterator[tuple[Scene, RunningSite, httpx.Client, str]]:
    """A scene, its site, a browser that has shown the token, and the path of the page of the one lock."""
    scene = Scene(shown)
    site = start(scene, token=TOKEN)
    with site.client(headers={"origin": site.url}) as browser:
        assert browser.get("/", params={"token": TOKEN}).status_code == 200
        browser.get("/")
        yield scene, site, browser, site.page_of(shown.name)


# ---- headers ---------------------------------------------------------------------------------------------------------


def test_each_answer_forbids_what_pages_do_not_need(start):
    site = start(Scene(ORDERS))
    for path in ("/", "/lock/00", "/nothing", "/static/app.js", "/static/nothing", "/events"):
        with site.client() as browser, browser.stream("GET", path) as response:
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["x-frame-options"] == "DENY"
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "same-origin"
            assert response.headers["cache-control"] == ("no-cache" if path == "/static/app.js" else "no-store")
            assert "server" not in response.headers


def test_pages_load_nothing_from_elsewhere_and_have_no_inline_code(start):
    text = start(Scene(ORDERS)).get("/").text
    assert "://" not in text.replace("redis://", "")
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick" not in text
    assert text.count("<script") == 1


# ---- hosts -----------------------------------------------------------------------------------------------------------


OTHER_HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "",
    "a@localhost",
    "localhost:x",
    "[::1",
]


def test_requests_by_addresses_and_local_names_are_answered_and_others_refused(start):
    site = start(Scene(ORDERS))
    for host in OTHER_HOSTS:
        response = site.get("/", headers={"host": host})
        assert response.status_code in (400, 421)
        assert "orders" not in response.text
        twice = Headers(raw=[(b"host", b"localhost"), (b"host", host.encode())])
        assert not site.access.knows_host(twice)
    for host in ("localhost", "LOCALHOST:1", "a.localhost", "127.0.0.1", "[::1]:80", "10.0.3.7:8379"):
        assert site.get("/", headers={"host": host}).status_code == 200


def test_a_name_may_be_allowed(start):
    site = start(Scene(), hosts=("Locks.Example.com",))
    assert site.get("/", headers={"host": "locks.example.com:8379"}).status_code == 200


def test_other_methods_are_refused(start):
    with start(Scene()).client() as browser:
        for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
            assert browser.request(method, "/").status_code == 405


# ---- the token -------------------------------------------------------------------------------------------------------


def test_without_a_token_there_is_nothing_to_free(start):
    scene = Scene(ORDERS)
    site = start(scene)
    path = site.page_of("orders")
    page = site.get(path)
    assert "<form" not in page.text
    form = site.form(HOLDER)
    with site.client() as browser:
        assert browser.post(f"{path}/free", data=form, headers={"origin": site.url}).status_code == 403
        assert browser.post("/sign-in", data={}, headers={"origin": site.url}).status_code == 303
    assert scene.freed == []


def test_with_a_token_nothing_is_shown_without_it(start):
    site = start(Scene(ORDERS), token=TOKEN)
    for path in ("/", "/events", "/lock/00", "/lock/00/events", "/?token=wrong", "/?token=", "/nothing"):
        response = site.get(path)
        assert response.status_code == 403
        assert "orders" not in response.text
        assert TOKEN not in response.text
        assert "set-cookie" not in response.headers


def test_the_first_visit_leaves_a_cookie_and_an_address_without_the_token(start):
    site = start(Scene(ORDERS), token=TOKEN)
    with site.client() as browser:
        response = browser.get("/?q=a%26b&token=" + TOKEN)
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert TOKEN not in response.text
        assert "0;url=/?q=a%26b" in response.text
        page = browser.get("/")
        assert page.status_code == 200
        assert "orders" in page.text
        assert TOKEN not in page.text


def test_the_first_visit_does_not_lead_elsewhere(start):
    site = start(Scene(), token=TOKEN)
    for path in ("//evil.example/", "/\\evil.example/", "/%5cevil.example"):
        text = site.get(f"{site.url}{path}?token={TOKEN}").text
        assert "Signed in" in text
        assert "url=//" not in text
        assert "\\" not in text


def test_the_token_can_be_typed(start):
    site = start(Scene(ORDERS), token=TOKEN)
    with site.client(headers={"origin": site.url}) as browser:
        wrong = browser.post("/sign-in", data={"token": "wrong"})
        assert wrong.status_code == 403
        assert "That is not the token" in wrong.text
        assert browser.post("/sign-in", data={"token": "x" * 10_000}).status_code == 403
        assert browser.get("/").status_code == 403
        right = browser.post("/sign-in", data={"token": TOKEN})
        assert (right.status_code, right.headers["location"]) == (303, "/")
        assert browser.get("/").status_code == 200


def test_the_cookie_of_another_run_is_worth_nothing(start):
    site = start(Scene(), token=TOKEN)
    other = Access("another token", frozenset(), site.port)
    for value in (other.session, "", "ä", other.session[:-1], "a=b; c"):
        assert site.get("/", headers={"cookie": f"{site.access.cookie}={value}".encode()}).status_code == 403


def test_odd_cookies_of_other_programs_do_not_matter(start):
    site = start(Scene(), token=TOKEN)
    mine = f"{site.access.cookie}={site.access.session}"
    for cookies in (f"a[b]=1; {mine}", f"{mine}; c", f'x="; {mine}', f";;=; {mine} ;", f"{'y=' + 'z' * 9000}; {mine}"):
        assert site.get("/", headers={"cookie": cookies}).status_code == 200, cookies[:30]
    assert site.get("/", headers={"cookie": f"x={mine}"}).status_code == 403


# ---- freeing a lock --------------------------------------------------------------------------------------------------


def test_a_viewer_with_the_token_frees_a_lock_from_the_holder_shown(start):
    with signed_in(start) as (scene, site, browser, path):
        assert site.access.form_token in browser.get(path).text
        response = browser.post(f"{path}/free", data=site.form(HOLDER))
        assert response.status_code == 200
        assert "The lock was freed." in response.text
        assert scene.freed == [("orders", HOLDER.owner)]
        assert len(site.reports) == 1
        assert "orders" in site.reports[0]
        assert HOLDER.label in site.reports[0]
        assert "on this page" in browser.get(path).text  # In its history.
        until(lambda: browser.post(f"{path}/free", data=site.form(HOLDER)).status_code == 409)


def test_what_may_be_no_lock_is_not_offered_for_deletion(start):
    doubtful = lock("theme", HOLDER, kind="token_lock", notes=(DOUBTFUL,))
    with signed_in(start, doubtful) as (scene, site, browser, path):
        assert "Free this lock" not in browser.get(path).text
        assert browser.post(f"{path}/free", data=site.form(HOLDER)).status_code == 409
    assert scene.freed == []


def test_another_holder_keeps_the_lock(start):
    with signed_in(start) as (scene, site, browser, path):
        for holders in ((who(2),), (who(1, 2),), (HOLDER, who(2)), ()):
            response = browser.post(f"{path}/free", data=site.form(*holders))
            assert response.status_code == 409
            assert "Others hold it" in response.text
        assert scene.freed == []
        # Between our look and theirs.
        scene.outcome = Outcome(False, 409, "Not freed", "Another holder has it by now.")
        response = browser.post(f"{path}/free", data=site.form(HOLDER))
        assert response.status_code == 409
        assert "on this page" not in browser.get(path).text


def test_forms_of_other_sites_are_refused(start):
    with signed_in(start) as (scene, site, browser, path):
        del browser.headers["origin"]
        for origin in (None, "null", "https://evil.example", "http://localhost", "http://127.0.0.1:1", "file://"):
            headers = {} if origin is None else {"origin": origin}
            assert browser.post(f"{path}/free", data=site.form(HOLDER), headers=headers).status_code == 403
        crossed = {"origin": site.url, "sec-fetch-site": "cross-site"}
        assert browser.post(f"{path}/free", data=site.form(HOLDER), headers=crossed).status_code == 403
    assert scene.freed == []


def test_a_form_needs_the_token_of_our_pages_and_the_cookie(start):
    with signed_in(start) as (scene, site, browser, path):
        for token in ("", "wrong", TOKEN, site.access.session):
            assert browser.post(f"{path}/free", data={**site.form(HOLDER), "form_token": token}).status_code == 403
        assert browser.get(f"{path}/free").status_code == 405
        browser.cookies.clear()
        assert browser.post(f"{path}/free", data=site.form(HOLDER)).status_code == 403
    assert scene.freed == []
