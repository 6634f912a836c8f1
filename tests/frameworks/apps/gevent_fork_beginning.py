"""A fork of a patched process while a thread of the library is about to begin."""

from __future__ import annotations

from gevent import monkey  # isort: skip

monkey.patch_all()

import os

import gevent

from pyredisson.threads.inherited import BackgroundThread

begun: list[int] = []
starting = gevent.spawn(lambda: BackgroundThread(lambda: begun.append(os.getpid()), "pyredisson-test").start())
gevent.sleep(0)  # It is about to begin.
assert not begun
child = os.fork()
gevent.sleep(0.05)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
starting.join(5)
assert begun == [os.getpid()], begun
