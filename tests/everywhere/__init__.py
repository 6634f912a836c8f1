"""The contract on every server that speaks the protocol: ``make test-everywhere``.

``install`` fetches the programs that the environment of the tests does not have, ``__main__`` runs the tests on
one server after the other, and ``table`` writes what they found into ``docs/operate/servers.md``.
"""
