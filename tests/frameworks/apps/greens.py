"""gevent and eventlet by the same names. Imported first, it patches: the program's argument says which one does."""

from __future__ import annotations

import sys
from typing import Any

kind = sys.argv[1]

if kind == "gevent":
    from gevent import monkey

    monkey.patch_all()
    import gevent

    Timeout: Any = gevent.Timeout
    spawn: Any = gevent.spawn
    sleep: Any = gevent.sleep

    def kill(greenlet: Any) -> None:
        """Throw an exception into it, which ends it."""
        greenlet.kill(block=False)

    def join(greenlet: Any, timeout: float) -> bool:
        """Wait until it has ended. Returns whether it has."""
        greenlet.join(timeout)
        return bool(greenlet.dead)

else:
    import eventlet

    eventlet.monkey_patch()
    Timeout, spawn, sleep = eventlet.Timeout, eventlet.spawn, eventlet.sleep

    def kill(greenlet: Any) -> None:
        """Throw an exception into it, which ends it."""
        if not greenlet.dead:
            eventlet.spawn_after(0, greenlet.kill)

    def join(greenlet: Any, timeout: float) -> bool:
        """Wait until it has ended. Returns whether it has."""
        with eventlet.Timeout(timeout, False):
            try:
                greenlet.wait()
            except BaseException as error:
                if isinstance(error, eventlet.Timeout):
                    raise
        return bool(greenlet.dead)
