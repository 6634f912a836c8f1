"""Guards for the place where the data is: they refuse a write whose fencing token is smaller than one seen before.

A lock cannot keep a paused holder from writing late; the place it writes to can. ``sql``, ``sqlalchemy``, ``redis`` and
``http`` have one guard each. Source: Kleppmann, "How to do distributed locking" (2016).
"""

__all__ = ["check_token"]

from pyredisson.fencing.tokens import check_token
