"""Distinguishes what a socket raised from what a signal handler raised while it was used."""

from __future__ import annotations

import socket


def raise_if_foreign(error: OSError, sock: socket.socket) -> None:
    """Raise the error again unless the socket raised it.

    A handler's ``TimeoutError`` is an ``OSError``, too, and may come when all has been sent. Taken for the socket's it
    would say that the request was not executed; and a caller that has to learn of it never would.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # A socket written in C has no frame; those of `ssl`, gevent and eventlet have frames of their packages.
    raised_in = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    if raised_in.partition(".")[0] not in (__name__.partition(".")[0], type(sock).__module__.partition(".")[0]):
        raise error
