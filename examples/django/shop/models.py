"""What is left of each order, and accounts that refuse late writes."""

from django.db import models

from pyredisson.integrations.django_models import FencedModel


class Stock(models.Model):
    left = models.IntegerField()


class Account(FencedModel):
    balance = models.IntegerField()
