"""The pages in a real browser: chromium without a window."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.web.scenes import RunningSite, Scene, client, lock, until, waiter, who

Start = Callable[..., RunningSite]

TOKEN = "the-token-of-the-test"
SCRIPT = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
WIDE, PHONE = (1280, 900), (390, 844)


def missing() -> str | None:
    programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if programs:
        return f"no {' and '.join(programs)} here: apt-get install chromium chromium-driver"
    return None if find_spec("selenium") else "no selenium here: pip install selenium"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window, one for all tests of this module."""
    reason = missing()
    if reason is not None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):  # no-sandbox: for root
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()


class Window:
    """The browser as one kind of device."""

    def __init__(self, chromium: Any, size: tuple[int, int], *, dark: bool) -> None:
        self._browser = chromium
        chromium.get_log("browser")  # Those of an earlier test.
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, address: str) -> None:
        self._browser.get(address)

    def run(self, script: str) -> Any:
        return self._browser.execute_script(f"return {script}")

    def text(self, css: str) -> str:
        """The text of the first element that a selector finds, as it is seen."""
        return str(self.run(f"document.querySelector({css!r})?.innerText ?? ''"))

    def wait(self, script: str) -> Any:
        return until(lambda: self.run(script), what=script)

    def click(self, css: str) -> None:
        self._browser.find_element("css selector", css).click()

    def type(self, css: str, text: str) -> None:
        self._browser.find_element("css selector", css).send_keys(text)

    @property
    def address(self) -> str:
        return str(self._browser.current_url)

    def complaints(self) -> list[str]:
        """What the browser has to say: errors, and what the content security policy has stopped."""
        return [entry["message"] for entry in self._browser.get_log("browser") if entry["level"] != "DEBUG"]

    def brightness(self) -> float:
        """How bright the background is: from 0, black, to 255."""
        parts = self.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        return float(sum(parts[:3]) / 3)

    def overhang(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def busy_scene() -> Scene:
    """Locks with awkward names, waiters, and a deadlock."""
    now = time.time()
    one, other = who(1, since=now - 90, remaining=20.0), who(2, since=now - 30, remaining=25.0)
    scene = Scene(
        lock("a", one, waiters=(waiter(other, since=now - 9),)),
        lock("b", other, waiters=(waiter(one, since=now - 8),)),
        lock(SCRIPT, who(3, app=SCRIPT), waiting_clients=1),
        lock("x" * 65_536, who(4, host="y" * 300), never_expires=True, keys=("x" * 65_536,)),
        lock("\u202e\u05e9\u05dc\u05d5\u05dd" * 50, who(5)),
        *(lock(f"order:{number}", who(number)) for number in range(6, 20)),
    )
    scene.clients = tuple(client(number) for number in range(1, 5))
    return scene


def test_a_wide_window_follows_what_happens(chromium, start):
    scene = busy_scene()
    site = start(scene, interval=0.1)
    window = Window(chromium, WIDE, dark=False)
    window.open(site.url)
    window.wait("document.querySelector('#dot').className === 'dot live'")
    assert SCRIPT in window.text("#locks")
    assert "1 cycle" in window.text("#alerts")
    assert window.run("document.querySelectorAll('#graph g.cycle rect').length") == 2
    assert window.brightness() > 200
    assert window.overhang() == 0
    scene.locks = (*scene.locks, lock("late", who(1), waiting_clients=9))
    window.wait("document.querySelector('#locks tr').innerText.includes('late')")  # Sorted by waiters: the first.
    scene.locks = scene.locks[:-1]
    window.wait("!document.querySelector('#locks').innerText.includes('late')")
    row = "[...document.querySelectorAll('#locks tr')].find((each) => each.innerText.includes('order:9'))"
    window.run(f"(({row}).mine = true)")
    scene.locks = tuple(lock("order:9", who(77)) if each.name == "order:9" else each for each in scene.locks)
    window.wait(f"({row}).innerText.includes('host-77')")
    assert window.run(f"({row}).mine")  # What changed was replaced, and nothing else.
    assert window.run(f"({row}).querySelectorAll('.changed').length") == 1
    window.type("input[name=q]", "order:1")
    window.wait("document.querySelectorAll('#locks tr').length === 10")
    assert "q=order%3A1" in window.address
    assert window.run("document.activeElement.name") == "q"
    window.click("#locks a")
    window.wait("document.querySelector('h1.name')?.innerText.startsWith('order:1')")
    assert "held it when first seen" in window.text("#history")
    assert "hacked" not in window.run("document.title")
    assert window.complaints() == []


def test_a_page_says_since_when_it_is_stale_and_recovers(chromium, start):
    scene = Scene(lock("orders", who(1)))
    site = start(scene, interval=0.1)
    window = Window(chromium, WIDE, dark=False)
    window.open(site.url)
    window.wait("document.querySelector('#dot').className === 'dot live'")
    scene.error = ConnectionError("refused")
    window.wait("document.querySelector('#alerts').innerText.includes('has not answered since')")
    scene.error = None
    window.wait("document.querySelector('#alerts').innerText === ''")
    site.stop()
    window.run("document.querySelector('#live').dataset.patience = 500")
    window.wait("!document.querySelector('#stale').hidden")
    assert "No news since" in window.text("#stale")
    assert "orders" in window.text("#locks")
    scene.locks = (lock("invoices", who(1)),)
    start(scene, interval=0.1, port=site.port)
    window.wait("document.querySelector('#locks').innerText.includes('invoices')")
    window.wait("document.querySelector('#stale').hidden")
    assert "orders" not in window.text("#locks")


def test_a_lock_is_freed_on_a_dark_phone(chromium, start):
    scene = busy_scene()
    site = start(scene, token=TOKEN, interval=0.1)
    window = Window(chromium, PHONE, dark=True)
    window.open(f"{site.url}/?token={TOKEN}")
    window.wait("document.querySelector('#dot')?.className === 'dot live'")
    assert TOKEN not in window.address
    assert window.run("document.cookie") == ""  # HttpOnly.
    assert window.brightness() < 60
    assert window.overhang() == 0
    for row in (3, 4, 5):
        window.open(site.url)
        window.click(f"#locks tr:nth-child({row}) a")
        window.wait("document.querySelector('h1.name')")
        assert window.overhang() == 0
    window.open(f"{site.url}/?q=order:7")
    window.click("#locks a")
    window.wait("document.querySelector('.free summary')")
    window.click(".free summary")
    looks = scene.looks
    until(lambda: scene.looks > looks + 3)
    assert window.run("document.querySelector('.free details').open")  # Events leave it open.
    window.click(".danger")
    window.wait("document.querySelector('h1').innerText === 'Freed'")
    assert scene.freed == [("order:7", who(7).owner)]
    window.click("a.button")
    window.wait("document.querySelector('#facts')?.innerText.includes('It is not held')")
    assert "was freed from it, on this page" in window.text("#history")
    assert window.overhang() == 0
    assert window.complaints() == []
