"""Where a client connects; and no password is ever shown."""

from __future__ import annotations

import traceback
from typing import Any
from urllib.parse import quote

import pytest
import redis
import redis.exceptions as rx
from hypothesis import assume, given
from hypothesis import strategies as st

import pyredisson
import pyredisson.asyncio
from pyredisson.net.endpoint import url_of
from pyredisson.net.urls import asks_for_embedded, cluster_url, own_settings

SECRETS = st.text(min_size=8, max_size=20).filter(lambda text: text.isprintable())


@given(SECRETS, st.sampled_from(["redis://:{}@h:1/0", "rediss://u:{}@h", "redis://h/0?password={}", "unix://u:{}@/s"]))
def test_no_secret_comes_through(secret: str, form: str) -> None:
    assume(secret not in form)
    quoted = quote(secret, safe="")
    shown = url_of(redis.Redis.from_url(form.format(quoted)).connection_pool.connection_kwargs)
    assert shown is not None
    assert secret not in shown
    assert quoted not in shown
    assert ":***@" in shown


@pytest.mark.parametrize("url", ["embedded://", "embedded:"])
def test_embedded(url: str) -> None:
    assert asks_for_embedded(url, {})
    with pytest.raises(TypeError, match="settings"):
        asks_for_embedded(url, {"db": 1})


@pytest.mark.parametrize("url", ["embedded://host", "embedded:///path", "embedded://?db=1", "embedded:x"])
def test_embedded_accepts_no_options(url: str) -> None:
    with pytest.raises(ValueError, match="embedded"):
        asks_for_embedded(url, {})


@pytest.mark.parametrize(
    ("given_timeout", "kept"),
    [(None, 3.0), (5, 3.0), (1, 1), (0.5, 0.5), (0, 3.0), (-1, 3.0), (..., 3.0)],
    ids=repr,
)
def test_no_handshake_takes_longer_than_the_budget(given_timeout: Any, kept: float) -> None:
    settings = {"host": "h", "socket_timeout": given_timeout, "socket_connect_timeout": given_timeout}
    own = own_settings(settings, 3.0)
    assert own["socket_timeout"] == kept
    assert own["socket_connect_timeout"] == kept
    assert own["host"] == "h"


def test_what_redis_py_would_repeat_is_left_out() -> None:
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
def test_cluster_urls(url: str, seeds: tuple[tuple[str, int], ...], first: str) -> None:
    assert cluster_url(url) == (seeds, first)


@pytest.mark.parametrize("api", [pyredisson, pyredisson.asyncio])
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
def test_cluster_urls_that_lead_nowhere(api: Any, rest: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        api.Redisson.from_url(f"redis+cluster://{rest}")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("api", [pyredisson, pyredisson.asyncio])
def test_the_url_of_a_client_of_a_cluster(api: Any) -> None:
    client = api.Redisson.from_url("rediss+cluster://u:geheim@a:1,[::1]:2", socket_keepalive=True)
    assert client.url == "rediss+cluster://u:***@a:1,[::1]:2"
    assert "geheim" not in repr(client)


SECRETS = [f"first{each}second" for each in "#/?:@[]% \\\u2100"]  # The last is "a/c" once it is normalized.


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("host", ["host", "host:6379", "one:1,two:2/service"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "redis+sentinel", "unix"])
@pytest.mark.parametrize("api", [pyredisson, pyredisson.asyncio], ids=["threads", "asyncio"])
def test_the_error_for_a_bad_url_shows_no_part_of_a_password(api: Any, scheme: str, host: str, secret: str) -> None:
    for login in (f"user:{secret}", f":{secret}"):
        try:
            client = api.Redisson.from_url(f"{scheme}://{login}@{host}")
        except (ValueError, TypeError, rx.RedisError) as error:
            shown = "".join(traceback.format_exception(type(error), error, None)) + repr(error)
            assert "first" not in shown, shown
            assert "second" not in shown, shown
        else:
            assert "first" not in repr(client)


def test_the_error_for_a_bad_url_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="percent-encode"):
        pyredisson.Redisson.from_url("redis://user:pass#word@host:6379")
