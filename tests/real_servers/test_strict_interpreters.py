"""``python -W error -bb -X dev -O``: bytes are not compared with text, nothing warns or needs an ``assert``."""

import subprocess
import sys

import pytest

from tests.real_servers.each_kind import ASYNCIO, THREADS
from tests.servers import VALKEY, Server


@pytest.mark.quick
@pytest.mark.parametrize("program", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_each_kind(program):
    flags = ["-W", "error", "-bb", "-X", "dev", "-O"]
    with Server.start(VALKEY) as server:
        command = [sys.executable, *flags, "-c", program, server.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("done\n", "")
