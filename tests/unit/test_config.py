"""A ``Config`` that exists is in order."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from pyredisson import Config

OPTIONAL_TIMES = [field.name for field in dataclasses.fields(Config) if field.type == "float | None"]
TIMES = [field.name for field in dataclasses.fields(Config) if field.type == "float"] + OPTIONAL_TIMES
FLAGS = [field.name for field in dataclasses.fields(Config) if field.type == "bool"]


def test_the_defaults() -> None:
    assert dataclasses.asdict(Config()) == {
        "lock_watchdog_timeout": 30.0,
        "lock_watchdog_batch_size": 100,
        "fair_lock_wait_timeout": 300.0,
        "check_lock_synced_slaves": True,
        "slaves_sync_timeout": 1.0,
        "min_replicas": 0,
        "timeout": 3.0,
        "connect_timeout": 10.0,
        "max_wait_without_check": 10.0,
        "quorum_node_timeout": None,
        "quorum_retry_timeout": 30.0,
        "quorum_max_extensions": 8640,
        "restart_guard": True,
        "fence_from_clock": False,
        "sharded_subscription_mode": "AUTO",
        "strict_server": False,
        "wait_while_unreachable": False,
        "on_lock_lost": None,
        "listeners": (),
        "ping_interval": 10.0,
        "ping_timeout": 5.0,
        "prefix": "",
        "client_name": None,
        "presence": True,
        "presence_after": 5.0,
        "warn_held_longer_than": None,
        "warn_waiting_longer_than": None,
    }


def test_the_settings_to_decide_on_come_first_and_the_others_in_groups() -> None:
    names = [field.name for field in dataclasses.fields(Config)]
    assert names[:5] == ["lock_watchdog_timeout", "timeout", "on_lock_lost", "client_name", "strict_server"]
    _, *sections = re.split(r"^(\w+):\n", inspect.getdoc(Config) or "", flags=re.MULTILINE)
    listed = [re.findall(r"^    (\w+): ", text, re.MULTILINE) for text in sections[1::2]]
    groups = dict(zip(sections[::2], listed, strict=True))
    assert groups.pop("Args") == names[:5]
    assert groups.pop("Raises") == ["TypeError", "ValueError"]
    assert [name for group in groups.values() for name in group] == names[5:]
    assert len(groups) > 1


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(("value", "kept"), [(1, 1.0), (0.5, 0.5), (timedelta(milliseconds=250), 0.25), (3600, 3600.0)])
def test_times_are_kept_in_seconds(name: str, value: Any, kept: float) -> None:
    result = getattr(Config(**{name: value}), name)
    assert result == kept
    assert type(result) is float


@pytest.mark.parametrize(("value", "seconds"), [(30_000, "30"), (3600.1, "3.6001"), (86_400, "86.4")])
def test_a_watchdog_timeout_in_milliseconds_is_refused(value: float, seconds: str) -> None:
    with pytest.raises(ValueError, match="in seconds, not in milliseconds as Redisson") as refusal:
        Config(lock_watchdog_timeout=value)
    assert f"Did you mean {seconds}?" in str(refusal.value)


@pytest.mark.parametrize("value", [0.01, 0.0999, timedelta(milliseconds=99)], ids=repr)
def test_a_watchdog_timeout_that_cannot_be_renewed_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"in seconds, and at least 0\.1"):
        Config(lock_watchdog_timeout=value)


@pytest.mark.parametrize("name", [*(name for name in TIMES if name != "lock_watchdog_timeout"), "restart_guard"])
def test_a_plain_number_beyond_a_day_is_asked_about(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}=.*seconds\?"):
        Config(**{name: 100_000})
    kept = Config(**{name: timedelta(days=2)})
    assert dataclasses.replace(kept, timeout=2.0) is not None  # What was meant stays so.
    if name != "restart_guard":
        assert getattr(kept, name) == 172_800
        assert repr(getattr(kept, name)) == "172800.0"


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", [0, -1, -0.0, math.nan, math.inf, -math.inf, timedelta(0), 1e13, 10**400], ids=repr)
def test_times_are_positive_and_finite(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Config(**{name: value})


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", ["1", True, False, Decimal(1), b"1", [], ...], ids=repr)
def test_times_are_numbers(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        Config(**{name: value})


@pytest.mark.parametrize("name", TIMES)
def test_some_times_may_be_left_out(name: str) -> None:
    if name in OPTIONAL_TIMES:
        assert getattr(Config(**{name: None}), name) is None  # type: ignore[arg-type]
    else:
        with pytest.raises(TypeError, match=name):
            Config(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "least", "odd"),
    [
        ("lock_watchdog_batch_size", 1, (1.0, "1", True, None)),
        ("min_replicas", 0, (1.0, "1", True, None)),
        ("quorum_max_extensions", 0, (1.0, "1", True)),  # None: without a bound.
    ],
)
def test_counts(name: str, least: int, odd: tuple[Any, ...]) -> None:
    for value in (least, least + 1, 10**6):
        assert getattr(Config(**{name: value}), name) == value
    with pytest.raises(ValueError, match=name):
        Config(**{name: least - 1})
    for wrong in odd:
        with pytest.raises(TypeError, match=name):
            Config(**{name: wrong})


def test_extensions_may_be_without_a_bound() -> None:
    assert Config(quorum_max_extensions=None).quorum_max_extensions is None


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, "yes", None, "", []], ids=repr)
def test_flags_are_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        Config(**{name: value})


@pytest.mark.parametrize("value", [True, False, 0, 60, 0.5, timedelta(minutes=1)], ids=repr)
def test_the_restart_guard_is_a_flag_or_a_time(value: Any) -> None:
    assert Config(restart_guard=value).restart_guard == value or isinstance(value, timedelta)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "60", None], ids=repr)
def test_the_restart_guard_is_nothing_else(value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="restart_guard"):
        Config(restart_guard=value)


@pytest.mark.parametrize("value", ["auto", "", None, 1, "YES", True], ids=repr)
def test_the_mode_of_subscriptions(value: Any) -> None:
    for mode in ("AUTO", "ON", "OFF"):
        Config(sharded_subscription_mode=mode)
    with pytest.raises(ValueError, match="sharded_subscription_mode"):
        Config(sharded_subscription_mode=value)


def test_callbacks_are_callable() -> None:
    Config(on_lock_lost=lambda name, thread_id: None, listeners=(print,))
    with pytest.raises(TypeError, match="on_lock_lost"):
        Config(on_lock_lost="print")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="listener"):
        Config(listeners=(print, "print"))  # type: ignore[arg-type]
    for odd in (print, None, "print"):
        with pytest.raises(TypeError, match=r"listeners=\(listener,\)"):
            Config(listeners=odd)  # type: ignore[arg-type]


def test_callbacks_take_what_they_are_called_with() -> None:
    for wrong in (lambda: None, lambda name: None, lambda name, thread_id, more: None, len):
        with pytest.raises(TypeError, match="on_lock_lost is called with 2 arguments, the lock's name and the thread"):
            Config(on_lock_lost=wrong)
    with pytest.raises(TypeError, match="every listener is called with 1 argument, the event"):
        Config(listeners=(print, lambda: None))  # type: ignore[arg-type]
    for right in (lambda *told: None, lambda told, more=None: None, print, max, mock.Mock()):
        Config(on_lock_lost=right, listeners=(right,))


def test_listeners_are_kept_from_changing() -> None:
    listeners = [print]
    config = Config(listeners=listeners)  # type: ignore[arg-type]
    listeners.clear()
    assert config.listeners == (print,)


def test_a_config_is_a_value() -> None:
    config = Config(timeout=1)
    assert config == Config(timeout=1.0)
    assert config != Config()
    assert hash(config) == hash(Config(timeout=1.0))
    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, min_replicas=1) == Config(timeout=1, min_replicas=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.timeout = 2.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="timeout"):
        dataclasses.replace(config, timeout=0)


@pytest.mark.parametrize("value", ["", "app:", "{app}:", "größe", " ", "\x00"])
def test_a_prefix_is_any_text(value: str) -> None:
    assert Config(prefix=value).prefix == value


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        *(("prefix", value, TypeError) for value in (None, b"app:", 1)),
        *(("client_name", value, TypeError) for value in (b"web", 5)),
        *((name, "\ud800", ValueError) for name in ("prefix", "client_name")),
        ("client_name", "", ValueError),
    ],
)
def test_a_text_is_one_that_can_be_sent(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"{name} must (be a str|not be empty)|UTF-8"):
        Config(**{name: value})
