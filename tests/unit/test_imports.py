"""What an import loads: few programs need every kind of lock, a cluster, or both halves of the library."""

import importlib
import pickle
from typing import get_type_hints

import pytest

import pyredisson
from pyredisson import _kinds as kinds
from tests.command_line import output_of

RARE = ("apscheduler", "celery", "dramatiq", "rq", "django", "fastapi", "sqlalchemy", "starlette")
RARE += ("pyredisson.integrations", "pyredisson.events", "pyredisson._kinds.fair_lock")
RARE += ("pyredisson._kinds.read_write_lock", "pyredisson._kinds.semaphores", "pyredisson._net.cluster")
RARE += ("pyredisson._quorum.multi_lock", "pyredisson._shared.synchronized")


def loaded_by(statement: str) -> set[str]:
    return set(output_of(f"{statement}\nimport sys\nprint(*sys.modules)").split())


def test_the_package_alone_does_not_load_redis():
    assert not {"redis", "asyncio", "pyredisson._core.client"} & loaded_by("import pyredisson")


@pytest.mark.parametrize("form", ["pyredisson", "pyredisson.asyncio"])
def test_a_client_does_not_load_what_few_programs_need(form):
    loaded = loaded_by(f"from {form} import Redisson")
    assert "pyredisson._kinds.lock" in loaded
    assert not set(RARE) & loaded
    assert ("pyredisson._threads.client" in loaded) != ("pyredisson._asyncio.client" in loaded)


def test_modules_for_users_can_be_reached_through_the_package():
    names = ("config", "errors", "events", "lease")
    assert loaded_by("import pyredisson\npyredisson.errors.LockError, pyredisson.events.Lost")
    for name in names:
        assert getattr(pyredisson, name) is importlib.import_module(f"pyredisson.{name}")
    assert set(names) | set(pyredisson.__all__) <= set(dir(pyredisson))


@pytest.mark.parametrize("module", [pyredisson, kinds, importlib.import_module("pyredisson._core.events")])
def test_an_unknown_name_is_an_attribute_error(module):
    with pytest.raises(AttributeError, match="Unknown"):
        _ = module.Unknown


def test_the_base_of_events_belongs_to_the_public_module():
    assert pyredisson.events.Event.__module__ == "pyredisson.events"
    assert pickle.loads(pickle.dumps(pyredisson.events.GivenBack("orders", "x:1"))).name == "orders"
    assert "pyredisson.events.Event" in str(get_type_hints(pyredisson.Config)["listeners"])
