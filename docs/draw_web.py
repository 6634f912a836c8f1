"""``python docs/draw_web.py``: photograph the pages of ``pyredisson web`` with chromium, for the documentation.

What they show is made up, so that the pictures are the same each time, but for the time of the day.
"""

from __future__ import annotations

import base64
import math
import shutil
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from selenium import webdriver

from pyredisson._tools.web.watcher import BUCKET_SECONDS, see
from pyredisson.inspection import LockView, Who
from tests.web.scenes import RunningSite, Scene, client, lock, snapshot, waiter, who

STATIC = Path(__file__).parent / "_static"
TOKEN = "shown-once"
QUALITY = 82

NAMES = ("web", "worker", "billing", "web", "cron")


def identity(number: int, thread_id: int) -> dict[str, object]:
    """An id that looks like one, the same each time."""
    made = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
    return {"client_id": made, "thread_id": thread_id, "owner": f"{made}:{thread_id}"}


def owner(number: int, thread_id: int = 1, /, **fields: object) -> Who:
    """An owner of one of a few programs."""
    app = NAMES[number % len(NAMES)]
    return who(
        number,
        thread_id,
        **{**identity(number, thread_id), "app": app, "host": f"{app}-{number}", "pid": 3900 + 17 * number, **fields},
    )


def locks(now: float) -> tuple[LockView, ...]:
    """Locks of a shop on a bad night: a deadlock, a queue, and a lock that was left behind."""
    orders = owner(3, 12, since=now - 41, remaining=22.1, watchdog=True, thread="MainThread")
    stock = owner(1, 2, since=now - 38, remaining=27.0, watchdog=True, thread="ThreadPoolExecutor-0_1")
    java = Who(**identity(99, 77), runtime="redisson", connected=True, remaining=28.0, holds=2)
    lost = Who(**identity(66, 7), connected=False)
    queue = tuple(
        waiter(owner(number, 9), kind="fair_lock", place=place, since=now - 29 + 6 * place, expired=place == 3)
        for place, number in enumerate((8, 6, 13, 4), 1)
    )
    held = [
        lock("order:17", orders, waiters=(waiter(stock, since=now - 12),), waiting_clients=2, free_in=22.1),
        lock("order:18", stock, waiters=(waiter(orders, since=now - 12),), waiting_clients=1, free_in=27.0),
        lock("payments", java, kind="fair_lock", waiters=queue, waiting_clients=4, free_in=28.0, keys=("payments",)),
        lock("nightly-report", lost, never_expires=True, waiting_clients=3, node="redis:6379"),
        lock(
            "stock:seats",
            owner(5, since=now - 2, remaining=29.0),
            owner(6, 4),
            kind="read_write_lock",
            mode="read",
            free_in=29,
        ),
        lock("mail:outbox", kind="semaphore", permits=3, taken=7),
        lock("cache:warm", owner(2, 3, since=now - 1, remaining=29.4), free_in=29.4, token=4711, kind="fenced_lock"),
        lock("import:2026-11-23", owner(9, since=now - 754, remaining=21.0), free_in=21.0),
    ]
    return tuple(held)


def scene() -> Scene:
    made = Scene(*locks(time.time()))
    made.clients = tuple(
        client(
            number,
            client_id=identity(number, 1)["client_id"],
            holds=(1,) * (number % 3),
            waits=(1,) * (number % 2),
            app=NAMES[number % 5],
            host=f"{NAMES[number % 5]}-{number}",
            pid=3900 + 17 * number,
        )
        for number in range(1, 7)
    )
    made.fields = {"keys_seen": 1_048_576, "seconds": 0.412}
    return made


def remember(site: RunningSite) -> None:
    """Give the site an hour to remember."""
    last = int(time.time() // BUCKET_SECONDS)
    for ago in range(179, 0, -1):
        at = (last - ago) * BUCKET_SECONDS + 1.0
        busy = max(0.0, math.sin(ago / 19) + math.sin(ago / 5) / 2) * 4
        waiters = tuple(waiter(who(number), since=at - busy**1.8) for number in range(int(busy)))
        site.watcher.waits.add(see(snapshot(lock("x", waiters=waiters)), None).rows.values(), at)


def photograph(browser: webdriver.Chrome, name: str, width: int, height: int) -> None:
    """Write a picture of what the browser shows."""
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    how = {"format": "webp", "quality": QUALITY, "clip": clip}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", how)
    (STATIC / name).write_bytes(base64.b64decode(taken["data"]))


def device(browser: webdriver.Chrome, width: int, height: int, *, dark: bool) -> None:
    """Make the browser one kind of device."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def main() -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for each in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--lang=en-GB"):
        options.add_argument(each)
    shown = scene()
    site = RunningSite(shown, token=TOKEN, interval=2.0, hosts=(), always=True)
    remember(site)
    with site:
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            device(browser, 1180, 1450, dark=False)
            browser.get(f"{site.url}/?token={TOKEN}")
            time.sleep(3)
            photograph(browser, "web.webp", 1180, 1450)
            device(browser, 400, 900, dark=True)
            assert site.watcher.seen is not None
            path = next(row.id for row in site.watcher.seen.rows.values() if row.lock.name == "payments")
            browser.get(f"{site.url}/lock/{path}")
            time.sleep(3)
            photograph(browser, "web-phone.webp", 400, 900)
            if "--all" in sys.argv:  # To look at, not for the documentation.
                for width, dark in ((1180, True), (400, False), (400, True)):
                    device(browser, width, 3000, dark=dark)
                    browser.get(site.url)
                    time.sleep(2)
                    browser.save_screenshot(f"web-{width}-{'dark' if dark else 'light'}.png")
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
