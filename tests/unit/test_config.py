"""A ``Config`` that exists is in order."""

import dataclasses
import functools
import inspect
import math
import pickle
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any, get_type_hints
from unittest import mock

import pytest

from pyredisson import Config

OPTIONAL_TIMES = [field.name for field in dataclasses.fields(Config) if field.type == "Time[float | None]"]
#: Those that have to be positive.
TIMES = [
    field.name for field in dataclasses.fields(Config) if field.type == "Time[float]" and field.name != "loss_margin"
]
TIMES += OPTIONAL_TIMES
FLAGS = [field.name for field in dataclasses.fields(Config) if field.type == "bool"]


def test_a_restart_guard_may_be_a_timedelta():
    assert Config(restart_guard=timedelta(minutes=1)).restart_guard == 60.0
    assert Config(restart_guard=True).restart_guard is True


def test_the_types_of_the_settings_are_known_at_run_time():
    hints = get_type_hints(Config)
    assert hints["timeout"] is float
    assert hints["quorum_node_timeout"] == float | None


def test_the_defaults():
    assert dataclasses.asdict(Config()) == {
        "lock_watchdog_timeout": 30.0,
        "loss_margin": 0.0,
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


def test_the_settings_to_decide_on_come_first_and_the_others_in_groups():
    names = [field.name for field in dataclasses.fields(Config)]
    assert names[:6] == [
        "lock_watchdog_timeout",
        "loss_margin",
        "timeout",
        "on_lock_lost",
        "client_name",
        "strict_server",
    ]
    _, *sections = re.split(r"^(\w+):\n", inspect.getdoc(Config) or "", flags=re.MULTILINE)
    listed = [re.findall(r"^    (\w+): ", text, re.MULTILINE) for text in sections[1::2]]
    groups = dict(zip(sections[::2], listed, strict=True))
    assert groups.pop("Args") == names[:6]
    assert groups.pop("Raises") == ["TypeError", "ValueError"]
    assert [name for group in groups.values() for name in group] == names[6:]
    assert len(groups) > 1


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(("value", "kept"), [(1, 1.0), (0.5, 0.5), (timedelta(milliseconds=250), 0.25), (3600, 3600.0)])
def test_times_are_kept_in_seconds(name, value, kept):
    result = getattr(Config(**{name: value}), name)
    assert result == kept
    assert type(result) is float


def test_a_loss_margin_leaves_the_watchdog_time_for_a_renewal():
    assert Config(loss_margin=timedelta(milliseconds=250)).loss_margin == 0.25
    assert Config(lock_watchdog_timeout=timedelta(hours=3), loss_margin=4000).loss_margin == 4000
    half = r"loss_margin must be at least 0 and less than half of lock_watchdog_timeout, which is 1 s, not 0\.5"
    with pytest.raises(ValueError, match=half):
        Config(lock_watchdog_timeout=1, loss_margin=0.5)


@pytest.mark.parametrize(("value", "seconds"), [(30_000, "30"), (3600.1, "3.6001"), (86_400, "86.4")])
def test_a_watchdog_timeout_in_milliseconds_is_refused(value, seconds):
    with pytest.raises(ValueError, match="in seconds, not in milliseconds as Redisson") as refusal:
        Config(lock_watchdog_timeout=value)
    assert f"Did you mean {seconds}?" in str(refusal.value)


@pytest.mark.parametrize("value", [0.01, 0.0999, timedelta(milliseconds=99)], ids=repr)
def test_a_watchdog_timeout_that_cannot_be_renewed_is_refused(value):
    with pytest.raises(ValueError, match=r"in seconds, and at least 0\.1"):
        Config(lock_watchdog_timeout=value)


@pytest.mark.parametrize("name", [*(name for name in TIMES if name != "lock_watchdog_timeout"), "restart_guard"])
def test_a_plain_number_beyond_a_day_is_asked_about(name):
    with pytest.raises(ValueError, match=rf"{name}=.*seconds\?"):
        Config(**{name: 100_000})
    kept = Config(**{name: timedelta(days=2)})
    assert dataclasses.replace(kept, timeout=2.0) is not None  # What was meant stays so.
    if name != "restart_guard":
        assert getattr(kept, name) == 172_800
        assert repr(getattr(kept, name)) == "172800.0"


#: What is refused, by setting: the error, and the values.
NO_TIME = [
    (ValueError, (0, -1, -0.0, math.nan, math.inf, -math.inf, timedelta(0), 1e13, 10**400)),
    (TypeError, ("1", True, False, Decimal(1), b"1", [], ...)),
]
NO_FLAG = [(TypeError, (0, 1, "yes", None, "", []))]
REFUSED: dict[str, list[tuple[type[Exception], tuple[Any, ...]]]] = {
    **dict.fromkeys(TIMES, NO_TIME),
    **dict.fromkeys(FLAGS, NO_FLAG),
    "lock_watchdog_batch_size": [(ValueError, (0,)), (TypeError, (1.0, "1", True, None))],
    "min_replicas": [(ValueError, (-1,)), (TypeError, (1.0, "1", True, None))],
    "quorum_max_extensions": [(ValueError, (-1,)), (TypeError, (1.0, "1", True))],
    "loss_margin": [
        (ValueError, (-1, -0.001, 15, 3600, 1e13, math.nan, math.inf, timedelta(seconds=15))),
        (TypeError, ("1", True, None, Decimal(1))),
    ],
    "restart_guard": [(ValueError, (-1, math.nan, math.inf)), (TypeError, ("60", None))],
    "sharded_subscription_mode": [(ValueError, ("auto", "", None, 1, "YES", True))],
    "prefix": [(ValueError, ("\ud800",)), (TypeError, (None, b"app:", 1))],
    "client_name": [(ValueError, ("", "\ud800")), (TypeError, (b"web", 5))],
}

#: What is kept as it is, by setting.
KEPT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(OPTIONAL_TIMES, (None,)),
    "lock_watchdog_batch_size": (1, 2, 10**6),
    "min_replicas": (0, 1, 10**6),
    "quorum_max_extensions": (0, 1, 10**6, None),
    "loss_margin": (0.0, 5.0, 14.999),
    "restart_guard": (True, False, 0, 60, 0.5),
    "sharded_subscription_mode": ("AUTO", "ON", "OFF"),
    "prefix": ("", "app:", "{app}:", "größe", " ", "\x00"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(name):
    for error, values in REFUSED[name]:
        for value in values:
            with pytest.raises(error, match=name):
                Config(**{name: value})


@pytest.mark.parametrize("name", [name for name in TIMES if name not in OPTIONAL_TIMES])
def test_a_time_that_is_always_needed_cannot_be_left_out(name):
    with pytest.raises(TypeError, match=name):
        Config(**{name: None})


@pytest.mark.parametrize("name", KEPT)
def test_a_right_value_is_kept(name):
    for value in KEPT[name]:
        assert getattr(Config(**{name: value}), name) == value


def test_callbacks_are_callable():
    Config(on_lock_lost=lambda name, thread_id: None, listeners=(print,))
    with pytest.raises(TypeError, match="on_lock_lost"):
        Config(on_lock_lost="print")
    with pytest.raises(TypeError, match="listener"):
        Config(listeners=(print, "print"))
    for odd in (print, None, "print"):
        with pytest.raises(TypeError, match=r"listeners=\(listener,\)"):
            Config(listeners=odd)


def test_callbacks_take_what_they_are_called_with():
    for wrong in (lambda: None, lambda name: None, lambda name, thread_id, more: None, len):
        with pytest.raises(TypeError, match="on_lock_lost is called with 2 arguments, the lock's name and the thread"):
            Config(on_lock_lost=wrong)
    with pytest.raises(TypeError, match="every listener is called with 1 argument, the event"):
        Config(listeners=(print, lambda: None))

    async def never_awaited(event): ...

    with pytest.raises(TypeError, match="every listener must not be a coroutine function"):
        Config(listeners=(never_awaited,))
    for right in (lambda *told: None, lambda told, more=None: None, print, max, mock.Mock()):
        Config(on_lock_lost=right, listeners=(right,))


def test_a_decorator_may_pass_further_arguments_to_a_callback():
    @functools.wraps(test_callbacks_are_callable)
    def decorated(*told): ...

    Config(on_lock_lost=decorated, listeners=(decorated,))


def test_listeners_are_kept_from_changing():
    listeners = [print]
    config = Config(listeners=listeners)
    listeners.clear()
    assert config.listeners == (print,)


def test_a_config_is_a_value():
    config = Config(timeout=1)
    assert config == Config(timeout=1.0)
    assert config != Config()
    assert hash(config) == hash(Config(timeout=1.0))
    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, min_replicas=1) == Config(timeout=1, min_replicas=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.timeout = 2.0
    with pytest.raises(ValueError, match="timeout"):
        dataclasses.replace(config, timeout=0)
