"""Calls of ``pyredisson.integrations.django``, each in a process of its own: ``... integration_django NAME``."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import django
import pytest
import redis
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection, models, transaction

import pyredisson
from tests.frameworks.apps.shared import NAME, SECTION, URL

settings.configure(
    SECRET_KEY="none",
    INSTALLED_APPS=["pyredisson.integrations.django.PyredissonApp"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{SECTION}.sqlite3"}},
    CACHES={"default": {"BACKEND": "pyredisson.integrations.django.LockingRedisCache", "LOCATION": URL}},
    PYREDISSON={"URL": URL, "timeout": 5.0},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from pyredisson.integrations.django import OneHostMixin, async_client, client, hold, synchronized
from pyredisson.integrations.django_models import FencedModel, writing_with


def locked() -> bool:
    with pyredisson.Redisson.from_url(URL) as other:
        return other.get_lock(NAME).is_locked()


def the_lock_is_held_until_the_commit() -> None:
    seen = []
    with transaction.atomic():
        with hold(NAME):
            seen.append(locked())
        seen.append(locked())
        transaction.on_commit(lambda: seen.append(locked()))
    assert seen == [True, True, False]
    with hold(NAME):
        with transaction.atomic():
            assert locked()
        assert locked()
    assert not locked()


def the_lock_is_released_after_a_rollback() -> None:
    with transaction.atomic():
        with hold(NAME):
            pass
        assert locked()
        transaction.set_rollback(True)
    assert not locked()

    @synchronized(NAME)
    def fail() -> None:
        raise KeyError("of the test")

    try:
        with transaction.atomic():
            fail()
    except KeyError:
        assert not locked()  # although its traceback lives
    else:
        raise AssertionError
    with transaction.atomic():
        try:
            with transaction.atomic():
                fail()
        except KeyError:
            assert not locked()  # The savepoint was rolled back.
        with hold(NAME):
            assert locked()
    assert not locked()


def the_lock_is_released_although_an_earlier_hook_raises() -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    for robust in (False, True):
        kept = None
        try:
            with transaction.atomic():
                transaction.on_commit(fail, robust=robust)
                with hold(f"{NAME}-of-a-savepoint"), suppress(KeyError), transaction.atomic(), hold(NAME):
                    raise KeyError
                assert not locked()  # although the hook lives
                with hold(NAME), hold(f"{NAME}-2"):
                    pass
        except KeyboardInterrupt as error:
            kept = error
        assert kept is not None
        assert not locked()
        for name in (f"{NAME}-2", f"{NAME}-of-a-savepoint"):
            with hold(name, wait_time=0):
                pass


def a_lost_lock_undoes_no_commit() -> None:
    for rollback in (False, True):
        with transaction.atomic():
            with hold(NAME), pyredisson.Redisson.from_url(URL) as other:
                assert other.get_lock(NAME).force_unlock()
            transaction.set_rollback(rollback)
    try:
        with hold(NAME), pyredisson.Redisson.from_url(URL) as other:
            assert other.get_lock(NAME).force_unlock()
    except pyredisson.LockLostError:
        pass
    else:
        raise AssertionError


def a_busy_lock() -> None:
    @synchronized(NAME, when_busy="skip")
    def skips() -> int:
        return 1

    @synchronized(NAME, when_busy="raise")
    async def refuses() -> int:
        return 1

    assert skips() == 1
    with pyredisson.Redisson.from_url(URL) as other, other.get_lock(NAME):
        assert isinstance(skips(), pyredisson.Skipped)
        try:
            asyncio.run(refuses())
        except pyredisson.LockTimeoutError:
            pass
        else:
            raise AssertionError
    assert asyncio.run(refuses()) == 1  # In another loop.


def clients_are_of_their_process_and_their_loop() -> None:
    first = client()
    assert first is client()
    assert first.config.timeout == 5.0

    async def own() -> Any:
        async with async_client().get_lock(NAME).hold(wait_time=5):
            assert async_client() is async_client()
        return async_client()

    kept = asyncio.run(own())
    assert asyncio.run(own()) is kept
    threads = [threading.Thread(target=lambda: asyncio.run(own())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with first.get_lock(NAME):
        pid = os.fork()
        if pid == 0:
            os._exit(int(client().get_lock(NAME).try_lock()))
        assert os.waitpid(pid, 0)[1] == 0
    pid = os.fork()
    if pid == 0:
        with hold(NAME, wait_time=5):
            os._exit(0 if client().get_lock(NAME).is_locked() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    with pyredisson.Redisson.from_url(URL) as other:
        other.get_lock(NAME).force_unlock()


def settings_can_be_overridden() -> None:
    from django.test import override_settings

    before = client()
    with override_settings(PYREDISSON={"URL": URL, "timeout": 7.0}):
        assert client().config.timeout == 7.0
        assert client() is not before
    assert client().config.timeout == 5.0


def the_checks_find_what_is_wrong() -> None:
    from django.test import override_settings

    assert checks.run_checks() == []
    found = checks.run_checks(include_deployment_checks=True)
    assert all(each.id.startswith(("pyredisson.W001", "security.")) for each in found), found
    for wrong in ({"URL": URL, "timeuot": 1}, {"URL": "nonsense"}, {"URL": URL, "timeout": "soon"}):
        with override_settings(PYREDISSON=wrong):
            assert [each.id for each in checks.run_checks()] == ["pyredisson.E001"], wrong
    with override_settings(PYREDISSON={"URL": "redis://127.0.0.1:1"}):
        ids = [each.id for each in checks.run_checks(include_deployment_checks=True)]
        assert "pyredisson.E002" in ids, ids


def the_server_is_checked_without_rich() -> None:
    sys.modules.update(dict.fromkeys(["rich", "click", "wcwidth"]))  # Importing them raises ImportError.
    found = checks.run_checks(include_deployment_checks=True)
    assert all(each.id.startswith(("pyredisson.W001", "security.")) for each in found), found


def the_server_is_checked_with_its_password() -> None:
    from django.test import override_settings

    with redis.Redis.from_url(URL) as server:
        server.acl_setuser(NAME, enabled=True, passwords=["+secret"], keys=["*"], channels=["*"], commands=["+@all"])
        with override_settings(PYREDISSON={"URL": URL.replace("://", f"://{NAME}:secret@")}):
            found = checks.run_checks(include_deployment_checks=True)
        server.acl_deluser(NAME)
    assert "pyredisson.E002" not in [each.id for each in found], found
    assert "secret" not in str(found)


def a_wrong_argument_is_refused() -> None:
    for wrong in ({"when_busy": "stop"}, {"kind": "rlock"}, {"wait_time": "soon"}):
        try:
            synchronized(NAME, **wrong)
        except (TypeError, ValueError):
            continue
        raise AssertionError(wrong)


class Command(OneHostMixin, BaseCommand):
    lock_name = NAME
    at_most = 60
    runs = 0

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--by", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> str:
        Command.runs += options["by"]
        assert locked()
        return "done"


def a_command_runs_on_one_host() -> None:
    assert call_command(Command(), by=2, stdout=io.StringIO()) == "done"
    assert Command.runs == 2
    output = io.StringIO()
    with pyredisson.Redisson.from_url(URL) as other, other.get_lock(NAME):
        assert call_command(Command(), stdout=output) is None
        assert call_command(Command(), stdout=output, verbosity=0) is None
    assert Command.runs == 2
    assert output.getvalue() == f"skipped: {NAME!r} runs on another host, or has run recently\n"


def the_cache_has_the_lock_of_django_redis() -> None:
    import redis
    from django.core.cache import cache

    plain = redis.Redis.from_url(URL)
    lock = cache.lock(NAME, timeout=10, blocking_timeout=0.1)
    with lock:
        assert not plain.lock(f":1:{NAME}", timeout=10).acquire(blocking=False)
        assert 9 < plain.ttl(f":1:{NAME}") <= 10
    theirs = plain.lock(f":2:{NAME}", timeout=10)
    assert theirs.acquire(blocking=False)
    assert not cache.lock(NAME, version=2, timeout=10).acquire(blocking=False)
    theirs.release()
    cache.set(f"{NAME}-value", 1)
    assert cache.get(f"{NAME}-value") == 1
    cache.delete(f"{NAME}-value")
    plain.close()


def what_only_django_redis_has_is_refused() -> None:
    from django.core.cache import cache

    from pyredisson.integrations.django import LockingRedisCache

    for argument in "client", "lock_class":
        with pytest.raises(TypeError, match=argument):
            cache.lock(NAME, **{argument: None})
    theirs = LockingRedisCache(URL, {"OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"}})
    with pytest.raises(TypeError, match="CLIENT_CLASS"):
        theirs.get(NAME)


class Account(FencedModel):
    balance = models.IntegerField()

    class Meta:
        app_label = "pyredisson"


def refused(write: Callable[[], Any]) -> bool:
    before = list(Account.objects.order_by("id").values())
    try:
        write()
    except pyredisson.StaleTokenError as error:
        seen = (error.token, error.seen)
    else:
        return False
    assert seen == (4, 5)
    assert list(Account.objects.order_by("id").values()) == before
    return True


def late_writers_are_refused() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Account)
        editor.create_model(Payment)
    seven, eight = Account.objects.create(id=7, balance=1), Account(balance=2)
    eight.save()
    try:
        seven.save()
    except TypeError:
        pass
    else:
        raise AssertionError
    with writing_with(5, rows=Account):
        seven.save()
        assert Account.objects.get(pk=7).fence == 5
    with writing_with(4, rows=Account):
        stale = Account.objects.get(pk=7)
        assert refused(lambda: stale.save())
        assert refused(lambda: stale.save(update_fields=["balance"]))
        assert refused(lambda: asyncio.run(stale.asave()))
        assert refused(lambda: Account(id=7, balance=9).save())
        assert refused(lambda: stale.delete())
        assert refused(lambda: Account.objects.update(balance=9))
        assert refused(lambda: Account.objects.bulk_update([stale], ["balance"]))
        assert refused(lambda: Account.objects.filter(balance__lt=9).delete())
        assert refused(lambda: Account.objects.update_or_create(id=7, defaults={"balance": 9}))
        assert not refused(lambda: Account.objects.filter(pk=eight.pk).update(balance=3))
        assert not refused(lambda: Account.objects.create(balance=3))
    with writing_with(5, rows=Account):
        seven.balance = 6
        seven.save()
    with writing_with(6, rows=Account):
        assert Account.objects.update(balance=7) == 3
        assert set(Account.objects.values_list("balance", "fence")) == {(7, 6)}
        seven.delete()
        assert Account.objects.all().delete()[0] == 2


class Payment(FencedModel):
    account = models.ForeignKey(Account, on_delete=models.CASCADE)

    class Meta:
        app_label = "pyredisson"


def no_token_for(key: int, write: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=f" {key}: write it in a block"), transaction.atomic():
        write()


def _transfer() -> None:
    for key, change in (7, -1), (8, 1):
        account = Account.objects.get(pk=key)
        account.balance += change
        account.save()


def each_row_has_the_token_of_its_lock() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Account)
        editor.create_model(Payment)
    for key in 7, 8:
        Account.objects.create(id=key, balance=1)
    Payment.objects.create(id=3, account_id=7)
    accounts = Account.objects.order_by("id")
    writes: list[Callable[[], Any]] = [
        _transfer,
        lambda: Account.objects.update(balance=5),
        lambda: Account.objects.bulk_update(list(accounts), ["balance"]),
    ]
    for write in writes:
        with writing_with(222, rows=[(Account, "7")]):
            no_token_for(8, write)
            with writing_with(3, rows=accounts.get(pk=8)):
                write()
            no_token_for(8, lambda: Account.objects.filter(pk=8).update(balance=0))
        assert list(accounts.values_list("fence", flat=True)) == [222, 3]
    with writing_with(222, rows=(Account, 7)):
        no_token_for(3, accounts.get(pk=7).delete)  # The payment would be deleted with its account.
        no_token_for(3, Account.objects.filter(pk=7).delete)
        with writing_with(1, rows=Payment):
            accounts.get(pk=7).delete()
    assert not Payment.objects.exists()
    for wrong in 7, (Account,), int:
        with pytest.raises(TypeError, match="a row is"), writing_with(5, rows=[wrong]):
            pass
    with writing_with(5, rows=Account), pytest.raises(TypeError, match="update_conflicts"):
        Account.objects.bulk_create(
            [Account(id=8, balance=0)], update_conflicts=True, unique_fields=["id"], update_fields=["balance"]
        )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    client().close()
