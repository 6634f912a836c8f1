"""The program of docs/integrations/fastapi.md, and endpoints that end in other ways, on one application."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import shop
from fastapi import BackgroundTasks, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from pyredisson import Lease
from pyredisson.asyncio import Redisson
from pyredisson.integrations.fastapi import hold, lock
from tests.frameworks.apps.shared import NAME, SECTION, URL, note

os.chdir(Path(SECTION).parent)  # Its files are there.
app = shop.app


@app.get("/ready")
async def ready() -> dict[str, Any]:
    return {}


@app.get("/slow/{item}")
async def slow(item: str, lease: Annotated[Lease, Depends(lock(NAME + ":{item}"), scope="function")]) -> None:
    note("begun")
    await asyncio.sleep(60)


@app.get("/waiting/{item}")
async def waiting(item: str, lease: Annotated[Lease, Depends(lock(NAME + ":{item}", wait_time=60))]) -> None:
    note("acquired")


@app.get("/lost/{item}")
async def lost(item: str, lease: Annotated[Lease, Depends(lock(NAME + ":{item}"), scope="function")]) -> None:
    async with Redisson.from_url(URL) as other:
        await other.get_lock(f"{NAME}:{item}").force_unlock()


@app.get("/query")
def query(number: int, lease: Annotated[Lease, Depends(lock(NAME + ":{number}"))]) -> str:
    return repr(lease)


@app.get("/text", dependencies=[Depends(lock("{name}"))])
def text() -> None: ...


@app.get("/background/{item}", dependencies=[Depends(lock(NAME + ":{item}"), scope="function")])
async def background(item: str, tasks: BackgroundTasks) -> None:
    async def later() -> None:
        await asyncio.sleep(0.2)
        note("background task ended")

    tasks.add_task(later)


async def starlette(request: Request) -> JSONResponse:
    async with hold(request, NAME + ":{number}", kind="fair") as lease:
        return JSONResponse(lease.lost)


app.router.routes.append(Route("/starlette/{number:int}", starlette))
