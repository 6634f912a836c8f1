"""A stock of each order, in a file: code of yours that must not run twice at a time."""

import asyncio
import time
from pathlib import Path


async def take_one(order_id: int) -> int:
    file = Path(f"stock-{order_id}")
    left = int(file.read_text())
    await asyncio.sleep(0.001)  # Without the lock another request reads the same number here.
    file.write_text(str(left - 1))
    return left - 1


def take_one_in_a_thread(order_id: int) -> int:
    file = Path(f"stock-{order_id}")
    left = int(file.read_text())
    time.sleep(0.001)
    file.write_text(str(left - 1))
    return left - 1
