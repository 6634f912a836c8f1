"""Programs that are packed: the library inside a zip (zipapp, Spark's ``--py-files``), or frozen by PyInstaller."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipapp
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import pyredisson
from tests.real_servers.each_kind import ASYNCIO, THREADS
from tests.servers import VALKEY, Server, free_port

ROOT = Path(__file__).parents[2]

#: Whether the program runs where it should, before it does what each kind does.
PACKED = "import pyredisson\nif {place!r} not in pyredisson.__file__:\n    raise RuntimeError(pyredisson.__file__)\n"

#: The one that is tested.
PYINSTALLER = "6.22.3"


def run(command: list[str], **settings: str) -> str:
    """What a program prints; it ends well."""
    environment = {**os.environ, **settings}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, cwd="/")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library in a zip, which is the ``pyredisson`` command as well."""
    folder = tmp_path_factory.mktemp("zipped")
    package = Path(pyredisson.__file__).parent
    shutil.copytree(package, folder / "all" / "pyredisson", ignore=shutil.ignore_patterns("__pycache__"))
    zipapp.create_archive(folder / "all", folder / "pyredisson.pyz", main="pyredisson.__main__:main", compressed=True)
    return folder / "pyredisson.pyz"


@pytest.mark.parametrize("program", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_each_kind_from_a_zip(zipped, program):
    with Server(VALKEY) as server:
        program = PACKED.format(place=zipped.name) + program
        assert run([sys.executable, "-W", "error", "-c", program, server.url], PYTHONPATH=str(zipped)) == "done\n"


#: It holds each kind while its library is replaced on the disk: the locks are renewed, waited for and released.
REPLACED = """
import asyncio, shutil, sys
from contextlib import AsyncExitStack
from pathlib import Path
import pyredisson
from pyredisson.asyncio import Config, Redisson

async def main():
    async with Redisson.from_url(sys.argv[1], config=Config(lock_watchdog_timeout=2)) as client:
        kinds = ("lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock", "non_reentrant_lock")
        locks = [getattr(client, "get_" + kind)(kind) for kind in kinds]
        for side in ("read_lock", "write_lock"):
            locks.append(getattr(client.get_read_write_lock(side), side)())
        locks.append(client.get_multi_lock(client.get_lock("a"), client.get_lock("b")))
        of_two = [client.get_semaphore("few", permits=2), client.get_permit_expirable_semaphore("permits", permits=2)]
        async with AsyncExitStack() as blocks:
            held = [await blocks.enter_async_context(each.hold()) for each in (*locks, *of_two)]
            shutil.rmtree(Path(pyredisson.__file__).parent)
            waiting = start(locks[0].lock)
            await asyncio.sleep(2.5)  # Longer than a lease.
            lost = [each.lost for each in held]
        await done(waiting)
        permits = [await each.available_permits() for each in of_two]
        print(any(lost), [await each.locked() for each in locks[1:]], permits)
"""


@pytest.mark.parametrize("form", ["threads", "asyncio"])
def test_what_is_held_outlives_the_files_of_the_library(tmp_path, form):
    program = (
        f"{REPLACED}\nstart = lambda call: asyncio.ensure_future(call())\n"
        "async def done(task):\n    await task\nasyncio.run(main())"
    )
    if form == "threads":
        program = re.sub(r"\b(?:async|await) |_async|Async|\.asyncio", "", REPLACED).replace(
            "asyncio.sleep", "time.sleep"
        )
        pool = "from concurrent.futures import ThreadPoolExecutor as Pool\nimport time\npool = Pool()\n"
        program = f"{pool}{program}\nstart = pool.submit\ndone = lambda future: future.result(20)\nmain()"
    shutil.copytree(Path(pyredisson.__file__).parent, tmp_path / "pyredisson")
    with Server(VALKEY) as server:
        said = run([sys.executable, "-c", program, server.url], PYTHONPATH=str(tmp_path))
    assert said == f"False {[False] * 8} [2, 2]\n"


def test_the_command_line_from_a_zip(zipped):
    with Server(VALKEY) as server:
        assert "doctor" in run([sys.executable, str(zipped), "--help"])
        assert "[]" in run([sys.executable, str(zipped), "ls", "--json", "--url", server.url])


def test_the_web_pages_from_a_zip(zipped):
    port = free_port()
    pages = {"": "text/html", "static/app.css": "text/css", "static/favicon.svg": "image/svg+xml"}
    with Server(VALKEY) as server:
        command = [sys.executable, str(zipped), "web", "--url", server.url, "--listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as site:
            try:
                assert site.stderr is not None
                assert str(port) in site.stderr.readline()
                for path, kind in pages.items():
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as response:
                        assert response.headers["content-type"].startswith(kind)
                        assert response.read()
            finally:
                site.terminate()


# ---- PyInstaller -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def freeze(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """``freeze(name, program)``: the program, frozen without an option that concerns the library."""
    folder = tmp_path_factory.mktemp("frozen")
    run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)])
    [wheel] = folder.glob("*.whl")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    same = [f"{name}=={version(name)}" for name in ("redis", "hiredis", "typing-extensions", "click", "rich")]
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "-q"]
    run([*install, f"pyinstaller=={PYINSTALLER}", *same, str(wheel)])

    def frozen(name: str, program: str) -> Path:
        (folder / f"{name}.py").write_text(program, encoding="utf-8")
        paths = ["--distpath", str(folder), "--workpath", str(folder / "work"), "--specpath", str(folder)]
        run([str(python), "-m", "PyInstaller", "--log-level", "ERROR", *paths, str(folder / f"{name}.py")])
        return folder / name / name

    return frozen


@pytest.mark.parametrize("form", ["threads", "asyncio"])
def test_each_kind_frozen(freeze, form):
    program = {"threads": THREADS, "asyncio": ASYNCIO}[form]
    binary = freeze(f"program_{form}", PACKED.format(place="_internal") + program)
    with Server(VALKEY) as server:
        assert run([str(binary), server.url]) == "done\n"


def test_the_command_line_frozen(freeze):
    binary = str(freeze("command", "from pyredisson.__main__ import main\n\nmain()\n"))
    with Server(VALKEY) as server:
        assert "doctor" in run([binary, "--help"])
        assert "[]" in run([binary, "ls", "--json", "--url", server.url])
