"""Fixtures of this folder. What they hand out is in ``scenes.py``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.web.scenes import RunningSite, Scene

MISSING = [name for name in ("starlette", "uvicorn", "jinja2", "httpx") if find_spec(name) is None]

if MISSING and os.environ.get("PYREDISSON_REQUIRE_ALL") != "1":
    collect_ignore_glob = ["test_*.py"]

pytest.register_assert_rewrite("tests.web.scenes")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningSite]]:
    """``start(scene, token=None)``: a site that shows a scene, on a free port, until the test ends."""
    from tests.web.scenes import RunningSite

    # A page waits for the first look, however busy the machine is.
    monkeypatch.setattr("pyredisson._tools.web.app.FIRST_LOOK_SECONDS", 30.0)
    with ExitStack() as stack:

        def started(
            scene: Scene,
            *,
            token: str | None = None,
            interval: float = 0.02,
            hosts: tuple[str, ...] = (),
            always: bool = False,
            port: int = 0,
        ) -> RunningSite:
            site = RunningSite(scene, token=token, interval=interval, hosts=hosts, always=always, port=port)
            return stack.enter_context(site)

        yield started
