"""``pyredisson.integrations.django``: the program of its page on several servers, and each part in its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.frameworks.common import ROOT, Site, Surroundings, require
from tests.frameworks.page_programs import save_programs
from tests.waiting import until

PARTS = re.findall(
    r"^def ([a-z]\w+)\(\) -> None:", (Path(__file__).parent / "apps/integration_django.py").read_text(), re.M
)


@pytest.mark.parametrize("part", PARTS)
def test_a_part(surroundings, part):
    require("django")
    program = surroundings.program("-m", "tests.frameworks.apps.integration_django", part)
    assert program.wait(60) == 0, program.output()
    assert surroundings.keys() == []


def start(surroundings: Surroundings, *arguments: str) -> Site:
    """Start the program of the page in its folder."""
    require("django", "uvicorn", "gunicorn")
    folder = surroundings.folder
    save_programs("django", folder, surroundings.url)
    environment = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    for command in ("makemigrations shop", "migrate", "restock"):
        run = [sys.executable, "manage.py", *command.split()]
        subprocess.run(run, check=True, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE)
    (folder / "main.py").write_text(
        "import os, sys\n"
        "os.chdir(os.path.dirname(os.path.abspath(__file__)))\n"
        "from importlib import import_module\n"
        "module, function = os.environ['PYREDISSON_TEST_MAIN'].split()\n"
        "if __name__ == '__main__':\n"
        "    getattr(import_module(module), function)()\n"
    )
    return surroundings.site(
        *(str(folder / "main.py"), *arguments[2:]),
        environment={**environment, "PYREDISSON_TEST_MAIN": " ".join(arguments[:2])},
        ready="/orders/7",
    )


def test_the_page_runs_as_printed(open_page):
    page = open_page("django")
    for command in ("makemigrations", "migrate", "restock"):
        page.run(f"python manage.py {command}")
    page.serve("python manage.py runserver", "{port}", ready="Quit the server")
    page.run("curl localhost:8000/orders/7/ship")
    page.run("seq")
    page.run("curl localhost:8000/orders/7")
    page.run("python manage.py restock")
    page.run("python manage.py deposit")
    page.check_all_entered()


UVICORN = ("uvicorn", "main", "--host", "127.0.0.1", "--port", "{port}", "--workers", "2", "--lifespan", "off")
GUNICORN = ("gunicorn.app.wsgiapp", "run", "-b", "{address}", "--workers", "2", "--threads", "4")
SERVERS = {
    "ASGI": (*UVICORN, "--no-access-log", "django.core.asgi:get_asgi_application", "--factory"),
    "WSGI": (*GUNICORN, "--preload", "django.core.wsgi:get_wsgi_application()"),
}


@pytest.mark.volume
@pytest.mark.parametrize("server", SERVERS)
def test_no_two_requests_get_the_same_number(own_surroundings, volume, server):
    site = start(own_surroundings, *SERVERS[server])
    count = volume(40, full=400)
    left = 1000
    for view in ("ship", "pack"):
        replies = site.get_all([f"/orders/7/{view}"] * count, at_once=8)
        assert {reply.status for reply in replies} == {200}, site.output()[-3000:]
        assert sorted(reply.json for reply in replies) == list(range(left - count, left))
        left -= count
    assert site.get("/orders/7").json == left
    assert site.stop() in (0, -signal.SIGTERM)
    own_surroundings.check_nothing_left()


def test_runserver_goes_on_after_a_reload(own_surroundings):
    site = start(own_surroundings, "django.core.management", "execute_from_command_line", "runserver", "{address}")
    assert site.get("/orders/7/ship").json == 999
    program = own_surroundings.folder / "shop" / "views.py"
    changed = program.read_text().replace("safe=False)  # The", "safe=False, status=201)  # The")
    for _ in range(10):  # The reloader may look for the first time only after the change, and then sees none.
        program.write_text(changed)
        with suppress(AssertionError):
            until(lambda: site.get("/orders/7/ship").status != 200, 3)
            break
    until(lambda: site.get("/orders/7/ship").status == 201, 20, what="the new program answers")
    assert site.get("/orders/7/pack").status == 200
    site.stop()
    own_surroundings.check_nothing_left()


@pytest.mark.parametrize(("level", "sold"), [("REPEATABLE_READ", 2), ("READ_COMMITTED", 1)])
def test_a_transaction_that_has_read_before_its_lock_is_warned_of_once(surroundings, postgres, level, sold):
    require("django", "psycopg")
    name = "tests.frameworks.apps.integration_django_postgres"
    program = surroundings.program("-m", name, level, environment={"POSTGRES_URL": postgres})
    assert program.wait(60) == 0, program.output()
    seen = [line.rpartition(" ")[::2] for line in program.output().splitlines() if line.startswith("sold ")]
    after_a_read = ("sold sell_after_a_read", str(sold))
    assert seen == [("sold sell_in_the_block", "1"), ("sold sell_after_the_beginning", "1"), after_a_read, after_a_read]
    warnings = [line for line in program.output().splitlines() if "had begun before" in line]
    assert len(warnings) == sold - 1, program.output()
    assert all(surroundings.name in line and "'default'" in line for line in warnings)
    if warnings:  # Nothing was wrong before.
        assert program.output().index(warnings[0]) > program.output().index("sell_after_the_beginning")
