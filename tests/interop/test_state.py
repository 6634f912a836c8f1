"""The same calls leave the same in Redis, whoever makes them: keys, types, values, times to live, and messages."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

import pytest

from tests.interop.clients import Owner, Side
from tests.interop.random_calls import LEASES, STORIES
from tests.interop.same_calls import FAMILIES, Both, Server, Twin
from tests.interop.supported_kinds import CURRENT, LAST_3, LOCKS, OLD, OTHERS
from tests.servers import BUILDS, VALKEY

#: Of each family at full volume: of the newest version on our usual server, and of the others.
SEQUENCES = 350
OTHER_SEQUENCES = 50
STEPS = 14

CASES = [
    (version, build, family)
    for version in (CURRENT, LAST_3, OLD)
    for build in (BUILDS if version == CURRENT else (VALKEY,))
    for family in FAMILIES
    if (version, family) != (OLD, "permits")
]


def kinds_of(family: str, version: str) -> tuple[str, ...]:
    return tuple(kind for kind in FAMILIES[family] if version in {**LOCKS, **OTHERS}[kind])


def owners(make: Callable[[], Side]) -> list[Owner]:
    one, other = make(), make()
    return [one.owner(), one.owner(), other.owner()]


@pytest.mark.volume
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("version", "build", "family"), CASES, ids=lambda each: getattr(each, "id", each))
def test_what_is_left_in_redis(open_sides, fresh_server, version, build, family, volume):
    place = fresh_server(build)
    sides = open_sides(version, place.url)
    java, python = owners(sides.java), owners(sides.python)
    kinds = kinds_of(family, version)
    with place.client() as client:
        server = Server(client)
        usual = version == CURRENT and build is VALKEY
        for number in range(volume(6 if usual else 2, full=SEQUENCES if usual else OTHER_SEQUENCES)):
            seed = zlib.crc32(f"{version} {family} {number}".encode())
            random = Random(seed)
            one_lease = number % 3 != 2
            both = Both(
                Twin(java, f"java-{number}"), Twin(python, f"python-{number}"), server, one_lease, version == OLD
            )
            story = STORIES[family](random, both, kinds, (random.choice(LEASES),) if one_lease else LEASES)
            story.tell(STEPS)
            client.flushall()
        server.close()
