"""Fill the stock: a command that runs on one host."""

from django.core.management.base import BaseCommand
from shop.models import Stock

from pyredisson.integrations.django import OneHostMixin


class Command(OneHostMixin, BaseCommand):
    at_most = 3600  # seconds until it is free if the host crashes
    at_least = 600  # seconds for which it does not run again

    def handle(self, *args, **options):
        Stock.objects.update_or_create(pk=7, defaults={"left": 1000})
        self.stdout.write("restocked")
