"""``python -W error -bb -X dev -O``: bytes are not compared with text, nothing warns or needs an ``assert``."""

import pytest

from tests.command_line import run_python
from tests.real_servers.each_kind import ASYNCIO, THREADS
from tests.servers import VALKEY, Server


@pytest.mark.quick
@pytest.mark.parametrize("program", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_each_kind(program):
    flags = ["-W", "error", "-bb", "-X", "dev", "-O"]
    with Server(VALKEY) as server:
        ended = run_python(program, server.url, flags=flags)
    assert (ended.stdout, ended.stderr) == ("done\n", "")
