"""What the inspection says of a holder in Java, and that a lock freed from outside wakes a waiter there."""

from pyredisson.inspection import Inspector
from tests.interop.building import CURRENT
from tests.interop.peer import WITHIN
from tests.interop.waiters import until_it_waits


def test_a_holder_and_a_waiter_of_redisson(open_sides, unique_name, direct, valkey):
    java = open_sides(CURRENT).java()
    holder, waiter = java.owner(), java.owner()
    with Inspector(valkey.url) as inspector:
        for kind in ("lock", "fair_lock", "write_lock"):
            name = f"{unique_name}:{kind}"
            assert holder.get(kind, name).try_lock()
            waiting = waiter.get(kind, name)
            acquired = waiting.start("try_lock", 3 * WITHIN, 60)
            until_it_waits(direct, waiting)
            view = inspector.lock(name)
            assert view is not None
            [who] = view.holders
            assert who.owner == holder.field + (":write" if kind == "write_lock" else "")
            assert (who.host, who.since) == (None, None), "Redisson does not say"
            assert who.label.endswith(f":{who.thread_id}") or "no such client" in who.label
            assert view.waiting_clients == 1
            assert inspector.unlock(name, holder=str(who.client_id)).freed
            assert acquired.result(WITHIN)
            [who] = inspector.lock(name).holders
            assert who.owner.startswith(waiter.field)
            waiting.unlock()
