-- Acquires a lock, or one more hold for an owner who holds it.
-- KEYS  1 lock (hash)  2 epoch of the owner
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
-- Reply nil: acquired.  integer: another owner holds it, for this many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- One command for both keys: usually there is neither.
local found = redis.call('exists', KEYS[1], KEYS[2])
local stored = found > 0 and redis.call('get', KEYS[2])
-- include: epoch_guard
-- include: epoch_raise
if found == (stored and 1 or 0) then -- There is no lock.
    -- include: no_hold
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    -- include: first_lease
    return nil
end
local held = redis.call('hget', KEYS[1], ARGV[1])
if not held then
    -- include: no_hold
    return redis.call('pttl', KEYS[1])
end
-- include: live_for
-- include: reenter
return nil
