"""Worlds: a runtime and its servers behind one interface, for tests that are written once for every runtime.

``base`` says what a test is written against; ``threads``, ``asyncio`` and ``simulated`` are the worlds. ``clock`` is
what the first two share, and ``environments`` lists the servers that each world is run on.
"""
