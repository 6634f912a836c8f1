"""The worlds in real time, by their runtime. Processes that tests start import it too: nothing slow to import."""

from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.clock import ClockWorld
from tests.worlds.threads import ThreadsWorld

WORLDS: dict[str, type[ClockWorld]] = {"threads": ThreadsWorld, "asyncio": AsyncioWorld}
