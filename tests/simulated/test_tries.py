"""The tries of a token lock, when the server does not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.exceptions import RedisError

from pyredisson.config import ConstantBackoff
from pyredisson.errors import OutcomeUnknownError
from tests.simulated.stage import Stage
from tests.simulated.test_interruptions import CONFIG


def test_an_attempt_without_an_answer_is_one_of_the_tries() -> None:
    with Stage(CONFIG) as stage:
        stage.redis("SET", "orders", "foreign", "PX", 100_000)
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(1), tries=3).lock())
        stage.world.at(0.5, stage.client.runtime.cut)
        with pytest.raises((RedisError, OutcomeUnknownError)):
            waiting()
        assert 2 < stage.world.now < 2 + 3 * CONFIG.timeout


def test_a_first_attempt_that_reaches_no_server_is_none_of_the_tries() -> None:
    with Stage(replace(CONFIG, wait_while_unreachable=True)) as stage:
        stage.client.runtime.cut()
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(5), tries=2).lock())
        stage.world.at(4, stage.client.runtime.heal)
        assert waiting() is None
