"""Deposit 5, and refuse a holder whose lease is over."""

from django.core.management.base import BaseCommand
from shop.models import Account

from pyredisson import StaleTokenError
from pyredisson.integrations.django import client
from pyredisson.integrations.django_models import writing_with


def deposit(amount, token):
    with writing_with(token, rows=[(Account, 7)]):
        account = Account.objects.get(pk=7)
        account.balance += amount
        account.save()
    return account.balance


class Command(BaseCommand):
    def handle(self, *args, **options):
        Account.objects.get_or_create(pk=7, defaults={"balance": 100})
        lock = client().get_fenced_lock("account:7")
        with lock.hold() as early:
            late_token = early.token  # A pause begins here that is longer than the lease ...
        with lock.hold() as later:
            self.stdout.write(f"{deposit(5, later.token)}")
        try:
            deposit(-70, late_token)  # ... and ends here.
        except StaleTokenError as error:
            self.stdout.write(f"refused: {error.token} after {error.seen}")
