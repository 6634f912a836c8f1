"""Children of a fork, in programs that tests start: what one raises is printed, and it ends without going on."""

import ctypes
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable


def fork_without_hooks() -> int:
    """Fork as uWSGI does, without the functions of ``os.register_at_fork()``."""
    child: int = ctypes.PyDLL(None).fork()
    return child


def begin(work: Callable[..., object], *arguments: object, fork: Callable[[], int] = os.fork) -> int:
    """Let a child of a fork do something and end. Returns its process id."""
    sys.stdout.flush()
    child = fork()
    if child == 0:
        faulthandler.register(signal.SIGALRM, chain=True)  # Where it hangs, if it does.
        signal.alarm(30)
        try:
            work(*arguments)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def in_child(work: Callable[..., object], *arguments: object, fork: Callable[[], int] = os.fork) -> None:
    """The same; wait for its end, which has to be a good one."""
    status = os.waitpid(begin(work, *arguments, fork=fork), 0)[1]
    assert status == 0, status
