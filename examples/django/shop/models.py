"""What is left of each order."""

from django.db import models


class Stock(models.Model):
    left = models.IntegerField()
