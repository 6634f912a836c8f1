"""Where a client connects: a URL, the environment, another client. Mistakes are refused, and no password is shown."""

import traceback
from dataclasses import fields
from urllib.parse import quote

import pytest
import redis
import redis.asyncio
import redis.exceptions as rx
from hypothesis import assume, given
from hypothesis import strategies as st

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._net.urls import SCHEMES, cluster_url, endpoint_of, is_embedded_url, own_settings, url_of_endpoint


@pytest.mark.parametrize("url", ["redis://h", "redis+cluster://h", "redis+sentinel://h/service", "embedded://"])
def test_settings_of_config_are_refused_at_once(form, url):
    for field in fields(Config):
        with pytest.raises(TypeError, match=rf"config=Config\({field.name}=5\)"):
            form.Redisson.from_url(url, **{field.name: 5})
    with pytest.raises(TypeError, match=r"config=Config\(lock_watchdog_timeout=5, timeout=1\)"):
        form.Redisson.from_url(url, timeout=1, lock_watchdog_timeout=5)


PLACES = ["redis://h", "valkeys://h/1", "unix:///run/s", "redis+cluster://h", "redis+sentinel://h/service"]


@pytest.mark.parametrize("url", PLACES)
def test_an_unknown_setting_is_refused_at_once(form, url):
    with pytest.raises(TypeError, match=r"'sockt_timeout' is not a setting .* did you mean 'socket_timeout'"):
        form.Redisson.from_url(url, sockt_timeout=1)
    with pytest.raises(TypeError, match=r"'frobnicate' is not a setting of redis-py's connections$"):
        form.Redisson.from_url(url, frobnicate=1)
    with pytest.raises(ValueError, match=r"'sockt_timeout' is not a setting .* did you mean 'socket_timeout'"):
        form.Redisson.from_url(f"{url}?sockt_timeout=1")


@pytest.mark.parametrize("url", PLACES)
def test_known_settings_are_accepted(form, url):
    settings = {"socket_timeout": 1, "health_check_interval": 5, "retry_on_timeout": True}
    assert form.Redisson.from_url(url, client_name="web", max_connections=5, decode_responses=True, **settings).url


def test_a_client_of_the_other_form_is_led_there():
    with pytest.raises(TypeError, match=r"not redis\.asyncio.*; pyredisson\.asyncio\.Redisson"):
        pyredisson.Redisson(redis.asyncio.Redis())
    with pytest.raises(TypeError, match=r"not redis\.client.*; pyredisson\.Redisson"):
        pyredisson.asyncio.Redisson(redis.Redis())
    for form in (pyredisson, pyredisson.asyncio):
        for wrong in ("redis://h", 5, object()):
            with pytest.raises(TypeError, match="from_url"):
                form.Redisson(wrong)


@pytest.mark.parametrize(
    "url", ["", "localhost:6379", "http://h", "redis-cluster://h", "redis:h", "Redis://h", "://h", "user:hunter2@h"]
)
def test_the_error_of_a_wrong_url_says_what_is_accepted(form, url):
    with pytest.raises(ValueError, match="redis://localhost:6379") as refusal:
        form.Redisson.from_url(url)
    for scheme in SCHEMES:
        assert f"{scheme}://" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


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
def test_the_environment_says_where(form, environment, leads_to, monkeypatch):
    for name in ("PYREDISSON_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = form.Redisson.from_env(config=Config(timeout=7))
    assert client.url == leads_to
    assert client.config.timeout == 7


def test_a_wrong_url_in_the_environment_is_an_error(form, monkeypatch):
    monkeypatch.setenv("PYREDISSON_URL", "localhost")
    with pytest.raises(ValueError, match=r"PYREDISSON_URL.*redis://"):
        form.Redisson.from_env()
    monkeypatch.delenv("PYREDISSON_URL")
    monkeypatch.setenv("REDIS_URL", "redis://h?db=abc")
    with pytest.raises(ValueError, match="REDIS_URL"):
        form.Redisson.from_env()


DATABASES = ["l", "xx", "1/2", "1/", "/1", "-1", "+1", "1.0", "1_0", " 1", "0x1", "%31", "\u0661", "1l", "l1"]
URLS = ["redis://h/", "rediss://h/", "valkey://h/", "valkeys://h/", "redis+cluster://h/", "redis+sentinel://h/service/"]


@pytest.mark.parametrize("url", URLS)
def test_a_database_is_one_decimal_number(form, url, monkeypatch):
    for database in DATABASES:
        with pytest.raises(ValueError, match=r"database|no path"):
            form.Redisson.from_url(url + database)
        monkeypatch.setenv("PYREDISSON_URL", url + database)
        with pytest.raises(ValueError, match=r"PYREDISSON_URL.*(database|no path)"):
            form.Redisson.from_env()


@pytest.mark.parametrize(
    ("url", "leads_to"),
    [
        ("valkey://h", "redis://h:6379/0"),
        ("valkey://user:secret@h:7/2", "redis://user:***@h:7/2"),
        ("redis://h/", "redis://h:6379/0"),
        ("redis://user@h", "redis://***@h:6379/0"),
        ("redis://h?socket_keepalive=yes&db=3", "redis://h:6379/3"),
        ("valkeys://h/15?socket_timeout=1", "rediss://h:6379/15"),
        ("redis+sentinel://h/service/7", "redis+sentinel://h:26379/service/7"),
        ("redis+sentinel://h/service", "redis+sentinel://h:26379/service/0"),
        ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3"),
        ("rediss+cluster://u:secret@a:1,[::1]:2", "rediss+cluster://u:***@a:1,[::1]:2"),
    ],
)
def test_where_a_url_leads(form, url, leads_to):
    client = form.Redisson.from_url(url)
    assert client.url == leads_to
    assert "secret" not in repr(client)


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
def test_settings_of_valkeys_are_kept(settings, url):
    valkey = pytest.importorskip("valkey")
    assert pyredisson.Redisson(valkey.Valkey(**settings)).url == url


def test_a_client_with_unknowable_settings_is_refused():
    valkey = pytest.importorskip("valkey")
    asyncio_valkey = pytest.importorskip("valkey.asyncio")

    class Tunnel(valkey.Connection):
        pass

    with pytest.raises(TypeError, match="from_url"):
        pyredisson.Redisson(valkey.Valkey(connection_pool=valkey.ConnectionPool(connection_class=Tunnel)))
    with pytest.raises(TypeError, match=r"pyredisson\.asyncio"):
        pyredisson.Redisson(asyncio_valkey.Valkey())
    with pytest.raises(TypeError, match=r"pyredisson\.Redisson"):
        pyredisson.asyncio.Redisson(valkey.Valkey())


# ---- settings of a connection ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["embedded://", "embedded:"])
def test_embedded(url):
    assert is_embedded_url(url, {})
    with pytest.raises(TypeError, match="settings"):
        is_embedded_url(url, {"db": 1})


@pytest.mark.parametrize("url", ["embedded://host", "embedded:///path", "embedded://?db=1", "embedded:x"])
def test_embedded_accepts_no_options(url):
    with pytest.raises(ValueError, match="embedded"):
        is_embedded_url(url, {})


@pytest.mark.parametrize(
    ("given_timeout", "kept"), [(None, 3.0), (5, 3.0), (1, 1), (0.5, 0.5), (0, 3.0), (-1, 3.0), (..., 3.0)], ids=repr
)
def test_no_handshake_takes_longer_than_the_budget(given_timeout, kept):
    settings = {"host": "h", "socket_timeout": given_timeout, "socket_connect_timeout": given_timeout}
    own = own_settings(settings, 3.0)
    assert own["socket_timeout"] == kept
    assert own["socket_connect_timeout"] == kept
    assert own["host"] == "h"


def test_what_redis_py_would_repeat_is_left_out():
    pool = redis.Redis(host="h", password="secret", db=2, protocol=3, health_check_interval=7).connection_pool
    own = own_settings(pool.connection_kwargs, 3.0)
    assert not {"retry", "retry_on_error", "retry_on_timeout", "health_check_interval"} & set(own)
    assert (own["password"], own["db"], own["protocol"]) == ("secret", 2, 3)
    assert "retry" in pool.connection_kwargs or "retry_on_error" in pool.connection_kwargs, "the user's is untouched"
    redis.Connection(**own)  # It takes them all.


# ---- clusters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "seeds", "first"),
    [
        ("redis+cluster://a:1,b:2", (("a", 1), ("b", 2)), "redis://a:1"),
        ("redis+cluster://a", (("a", 6379),), "redis://a:6379"),
        ("rediss+cluster://u:p@a:1,b", (("a", 1), ("b", 6379)), "rediss://u:p@a:1"),
        ("redis+cluster://:p%40@a:1/?protocol=3", (("a", 1),), "redis://:p%40@a:1?protocol=3"),
        ("redis+cluster://[::1]:7,[::2]/0", (("::1", 7), ("::2", 6379)), "redis://[::1]:7"),
    ],
)
def test_cluster_urls(url, seeds, first):
    assert cluster_url(url) == (seeds, first)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("", "must be followed by nodes"),
        ("/", "must be followed by nodes"),
        ("u:geheim@", "must be followed by nodes"),
        (",", "must be followed by nodes"),
        ("a:1,", "must be followed by nodes"),
        (":7000", "must be followed by nodes"),
        ("a:", "must be a number from 1"),
        ("a:0", "must be a number from 1"),
        ("a:65536", "must be a number from 1"),
        ("a:x,b:1", "must be a number from 1"),
        ("u:geheim@a:-1", "must be a number from 1"),
        ("::1", "in brackets"),
        ("u:geheim@a:1/1", "only database 0"),
        ("a:1/orders", "takes no path"),
        ("a:1?db=2", "only database 0"),
    ],
)
def test_cluster_urls_that_lead_nowhere(form, rest, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        form.Redisson.from_url(f"redis+cluster://{rest}")
    assert "geheim" not in str(caught.value)


# ---- passwords -------------------------------------------------------------------------------------------------------

SECRETS = st.text(min_size=8, max_size=20).filter(lambda text: text.isprintable())


@given(SECRETS, st.sampled_from(["redis://:{}@h:1/0", "rediss://u:{}@h", "redis://h/0?password={}", "unix://u:{}@/s"]))
def test_no_secret_comes_through(secret, form):
    assume(secret not in form)
    quoted = quote(secret, safe="")
    shown = url_of_endpoint(endpoint_of(redis.Redis.from_url(form.format(quoted))))
    assert shown is not None
    assert secret not in shown
    assert quoted not in shown
    assert ":***@" in shown


PASSWORDS = [f"first{each}second" for each in "#/?:@[]% \\\u2100"]  # The last is "a/c" once it is normalized.


@pytest.mark.parametrize("host", ["host", "host:6379", "one:1,two:2/service"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "redis+sentinel", "unix"])
def test_the_error_for_a_bad_url_shows_no_part_of_a_password(form, scheme, host):
    for login in (f"{user}:{secret}" for user in ("user", "") for secret in PASSWORDS):
        try:
            client = form.Redisson.from_url(f"{scheme}://{login}@{host}")
        except (ValueError, TypeError, rx.RedisError) as error:
            shown = "".join(traceback.format_exception(type(error), error, None)) + repr(error)
            assert "first" not in shown, shown
            assert "second" not in shown, shown
        else:
            assert "first" not in repr(client)
    with pytest.raises(ValueError, match="percent-encode"):
        form.Redisson.from_url("redis://user:pass#word@host:6379")
