"""What programs that use pyredisson need in their own tests: a private server, and faults on demand.

The pytest fixtures are in :mod:`pyredisson.testing.plugin`. This package itself works without pytest.
"""

from pyredisson.testing._faults import lose_next_reply, partition, take_away
from pyredisson.testing._proxy import LostReply
from pyredisson.testing._server import RedissonServer

__all__ = ["LostReply", "RedissonServer", "lose_next_reply", "partition", "take_away"]
