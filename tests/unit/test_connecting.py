"""From a URL, from the environment, from a client of valkey's: to the same place; and mistakes are told at once."""

from __future__ import annotations

from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest
import redis
import redis.asyncio

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson.net.urls import SCHEMES

both = pytest.mark.parametrize("api", [pyredisson, pyredisson.asyncio], ids=lambda api: api.__name__)


@both
@pytest.mark.parametrize("field", [field.name for field in fields(Config)])
@pytest.mark.parametrize("url", ["redis://h", "redis+cluster://h", "redis+sentinel://h/service", "embedded://"])
def test_a_setting_of_config_is_refused_at_once(api: ModuleType, field: str, url: str) -> None:
    with pytest.raises(TypeError, match=rf"config=Config\({field}=5\)"):
        api.Redisson.from_url(url, **{field: 5})


@both
def test_several_settings_are_named_together(api: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"config=Config\(lock_watchdog_timeout=5, timeout=1\)"):
        api.Redisson.from_url("redis://h", timeout=1, lock_watchdog_timeout=5)


PLACES = ["redis://h", "valkeys://h/1", "unix:///run/s", "redis+cluster://h", "redis+sentinel://h/service"]


@both
@pytest.mark.parametrize("url", PLACES)
def test_an_unknown_setting_is_refused_at_once(api: ModuleType, url: str) -> None:
    with pytest.raises(TypeError, match=r"'sockt_timeout' is not a setting .* did you mean 'socket_timeout'"):
        api.Redisson.from_url(url, sockt_timeout=1)
    with pytest.raises(TypeError, match=r"'frobnicate' is not a setting of redis-py's connections$"):
        api.Redisson.from_url(url, frobnicate=1)
    with pytest.raises(ValueError, match=r"'sockt_timeout' is not a setting .* did you mean 'socket_timeout'"):
        api.Redisson.from_url(f"{url}?sockt_timeout=1")


@both
@pytest.mark.parametrize("url", PLACES)
def test_known_settings_are_accepted(api: ModuleType, url: str) -> None:
    settings: dict[str, Any] = {"socket_timeout": 1, "health_check_interval": 5, "retry_on_timeout": True}
    assert api.Redisson.from_url(url, client_name="web", max_connections=5, decode_responses=True, **settings).url


def test_a_client_of_the_other_form_is_led_there() -> None:
    with pytest.raises(TypeError, match=r"not redis\.asyncio.*; pyredisson\.asyncio\.Redisson"):
        pyredisson.Redisson(redis.asyncio.Redis())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not redis\.client.*; pyredisson\.Redisson"):
        pyredisson.asyncio.Redisson(redis.Redis())  # type: ignore[arg-type]
    for wrong in ("redis://h", 5, object()):
        with pytest.raises(TypeError, match="from_url"):
            pyredisson.Redisson(wrong)  # type: ignore[arg-type]


@both
@pytest.mark.parametrize(
    "url", ["", "localhost:6379", "http://h", "redis-cluster://h", "redis:h", "Redis://h", "://h", "user:hunter2@h"]
)
def test_the_error_of_a_wrong_url_says_what_is_accepted(api: ModuleType, url: str) -> None:
    with pytest.raises(ValueError, match="redis://localhost:6379") as refusal:
        api.Redisson.from_url(url)
    for scheme in SCHEMES:
        assert f"{scheme}://" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@both
@pytest.mark.parametrize(
    ("environment", "leads_to"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_URL": "redis://a:1"}, "redis://a:1/0"),
        ({"REDIS_URL": "redis://a:1", "PYREDISSON_URL": "valkey://b:2"}, "redis://b:2/0"),
        ({"REDIS_URL": "redis://a:1", "PYREDISSON_URL": ""}, "redis://a:1/0"),
        ({"REDIS_URL": ""}, "redis://localhost:6379/0"),
    ],
    ids=str,
)
def test_the_environment_says_where(
    api: ModuleType, environment: dict[str, str], leads_to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYREDISSON_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = api.Redisson.from_env(config=Config(timeout=7))
    assert client.url == leads_to
    assert client.config.timeout == 7


@both
def test_a_wrong_url_in_the_environment_is_an_error(api: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYREDISSON_URL", "localhost")
    with pytest.raises(ValueError, match=r"PYREDISSON_URL.*redis://"):
        api.Redisson.from_env()
    monkeypatch.delenv("PYREDISSON_URL")
    monkeypatch.setenv("REDIS_URL", "redis://h?db=abc")
    with pytest.raises(ValueError, match="REDIS_URL"):
        api.Redisson.from_env()


DATABASES = ["l", "xx", "1/2", "1/", "/1", "-1", "+1", "1.0", "1_0", " 1", "0x1", "%31", "\u0661", "1l", "l1"]
URLS = ["redis://h/", "rediss://h/", "valkey://h/", "valkeys://h/", "redis+cluster://h/", "redis+sentinel://h/service/"]


@both
@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("url", URLS)
def test_a_database_is_one_decimal_number(
    api: ModuleType, url: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"database|no path"):
        api.Redisson.from_url(url + database)
    monkeypatch.setenv("PYREDISSON_URL", url + database)
    with pytest.raises(ValueError, match=r"PYREDISSON_URL.*(database|no path)"):
        api.Redisson.from_env()


@both
@pytest.mark.parametrize(
    ("url", "leads_to"),
    [
        ("valkey://h", "redis://h:6379/0"),
        ("valkey://user:secret@h:7/2", "redis://user:***@h:7/2"),
        ("redis://h/", "redis://h:6379/0"),
        ("redis://user@h", "redis://user@h:6379/0"),
        ("redis://h?socket_keepalive=yes&db=3", "redis://h:6379/3"),
        ("valkeys://h/15?socket_timeout=1", "rediss://h:6379/15"),
        ("redis+sentinel://h/service/7", "redis+sentinel://h:26379/service/7"),
        ("redis+sentinel://h/service", "redis+sentinel://h:26379/service/0"),
        ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3"),
    ],
)
def test_where_a_url_leads(api: ModuleType, url: str, leads_to: str) -> None:
    assert api.Redisson.from_url(url).url == leads_to


@both
@pytest.mark.parametrize(
    "url", ["redis://:12/hunter2@h/0", "redis://u:12/x/hunter2@h", "redis+sentinel://u:12/service/hunter2@h:1"]
)
def test_the_error_of_a_wrong_database_shows_no_password(api: ModuleType, url: str) -> None:
    with pytest.raises(ValueError) as refusal:
        api.Redisson.from_url(url)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None


# ---- clients of valkey's ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"host": "h", "port": 7, "username": "u", "password": "secret"}, "redis://u:***@h:7/0"),
        ({"unix_socket_path": "/run/valkey.sock", "db": 2}, "unix:///run/valkey.sock?db=2"),
        ({"host": "h", "ssl": True}, "rediss://h:6379/0"),
    ],
    ids=str,
)
def test_settings_of_valkeys_are_kept(settings: dict[str, Any], url: str) -> None:
    valkey = pytest.importorskip("valkey")
    assert pyredisson.Redisson(valkey.Valkey(**settings)).url == url


def test_a_client_with_unknowable_settings_is_refused() -> None:
    valkey = pytest.importorskip("valkey")
    asyncio_valkey = pytest.importorskip("valkey.asyncio")

    class Tunnel(valkey.Connection):  # type: ignore[misc,name-defined]
        pass

    with pytest.raises(TypeError, match="from_url"):
        pyredisson.Redisson(valkey.Valkey(connection_pool=valkey.ConnectionPool(connection_class=Tunnel)))
    with pytest.raises(TypeError, match=r"pyredisson\.asyncio"):
        pyredisson.Redisson(asyncio_valkey.Valkey())
    with pytest.raises(TypeError, match=r"pyredisson\.Redisson"):
        pyredisson.asyncio.Redisson(valkey.Valkey())
