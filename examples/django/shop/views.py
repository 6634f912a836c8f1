"""Ship and pack orders, each by one request at a time."""

from django.db.transaction import non_atomic_requests
from django.http import JsonResponse
from django.urls import path
from shop.models import Stock

from pyredisson.integrations.django import hold, synchronized


@synchronized("order:{order_id}", wait_time=10)
def ship(request, order_id):
    stock = Stock.objects.get(pk=order_id)
    stock.left -= 1  # Without the lock another request reads the same number here.
    stock.save()
    return JsonResponse(stock.left, safe=False)  # The lock is released after the commit.


@non_atomic_requests  # Django has no transactions in async views.
@synchronized("order:{order_id}", wait_time=10)
async def pack(request, order_id):
    stock = await Stock.objects.aget(pk=order_id)
    stock.left -= 1
    await stock.asave()
    return JsonResponse(stock.left, safe=False)


def status(request, order_id):
    with hold(f"order:{order_id}", wait_time=0, skip=True) as lease:
        left = Stock.objects.get(pk=order_id).left
        return JsonResponse("busy" if lease is None else left, safe=False)


urlpatterns = [
    path("orders/<int:order_id>", status),
    path("orders/<int:order_id>/ship", ship),
    path("orders/<int:order_id>/pack", pack),
]
