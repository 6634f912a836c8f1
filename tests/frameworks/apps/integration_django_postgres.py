"""A seat that is sold in transactions of Django, on PostgreSQL: ``... integration_django_postgres LEVEL``.

It prints how often the seat was sold, by a transaction that has read something before it acquires the lock, by one that
has not, and by one that begins in the block of the lock.
"""

from __future__ import annotations

import os
import sys
from urllib.parse import parse_qs, urlsplit

import django
from django.conf import settings
from django.db import connections, transaction
from psycopg import IsolationLevel

from tests.frameworks.apps.shared import NAME, URL

postgres = urlsplit(os.environ["POSTGRES_URL"])
database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": postgres.path[1:],
    "USER": postgres.username,
    "HOST": parse_qs(postgres.query)["host"][0],
    "OPTIONS": {"isolation_level": IsolationLevel[sys.argv[1]]},
}
settings.configure(
    INSTALLED_APPS=["pyredisson.integrations.django.PyredissonApp"],
    DATABASES={"default": database, "other": database},
    PYREDISSON={"URL": URL, "timeout": 5.0},
)
django.setup()

from pyredisson.integrations.django import client, hold


def value(using: str, statement: str) -> int:
    with connections[using].cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


def sell(using: str) -> None:
    if value(using, "SELECT count(*) FROM django_tickets") == 0:
        with connections[using].cursor() as cursor:
            cursor.execute("INSERT INTO django_tickets VALUES (7)")


def sell_after_a_read(using: str) -> None:
    with transaction.atomic(using):
        value(using, "SELECT count(*) FROM django_tickets")
        sell("other" if using == "default" else "default")  # Committed before the lock is acquired.
        with hold(NAME, using=using):
            sell(using)


def sell_after_the_beginning(using: str) -> None:
    with transaction.atomic(using):
        sell("other" if using == "default" else "default")
        with hold(NAME, using=using):
            sell(using)


def sell_in_the_block(using: str) -> None:
    sell("other" if using == "default" else "default")
    with hold(NAME, using=using), transaction.atomic(using):
        sell(using)


with connections["default"].cursor() as cursor:
    cursor.execute("CREATE TABLE IF NOT EXISTS django_tickets (seat INTEGER)")
for way in sell_in_the_block, sell_after_the_beginning, sell_after_a_read, sell_after_a_read:
    with connections["default"].cursor() as cursor:
        cursor.execute("DELETE FROM django_tickets")
    way("default")
    print("sold", way.__name__, value("default", "SELECT count(*) FROM django_tickets"), flush=True)
with connections["default"].cursor() as cursor:
    cursor.execute("DROP TABLE django_tickets")
connections.close_all()
client().close()
