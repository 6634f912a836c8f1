"""Watching locks again and again, at little cost: what ``top``, ``watch`` and ``web`` share.

* Locks are read by ``pyredisson.inspection`` alone: all of them by a snapshot, a few often by a glance.
* ``changes.py`` says what must have happened between two views of a lock.
* ``messages.py`` receives what servers announce: releases, and notifications of keys where they are switched on.
* ``pace.py`` limits the cost: what took long rests for several times as long, and never keeps a process from ending.
"""
