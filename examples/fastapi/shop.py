"""Ship and pack orders, each by one request at a time."""

from typing import Annotated

import stock
from fastapi import Depends, FastAPI

from pyredisson import Lease
from pyredisson.integrations.fastapi import CancelOnDisconnect, add_exception_handlers, lifespan, lock

app = FastAPI(lifespan=lifespan("redis://localhost:6379"))
add_exception_handlers(app)
app.add_middleware(CancelOnDisconnect)

Order = Annotated[Lease, Depends(lock("order:{order_id}", wait_time=10), scope="function")]


@app.post("/orders/{order_id}/ship")
async def ship(order_id: int, lease: Order) -> int:
    left = await stock.take_one(order_id)
    lease.ensure_held()  # right before a step that must not be done twice
    return left


@app.post("/orders/{order_id}/pack")
def pack(order_id: int, lease: Order) -> int:
    return stock.take_one_in_a_thread(order_id)
