-- Acquires a lock that is a string, the token of its hold: SET name token NX PX lease.
-- KEYS  1 lock (string)  2 epoch of the owner
-- ARGV  1 token of the new hold  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms
--       5 token of this owner's previous hold, which is over; '' if there was none
-- Reply nil: acquired.  integer: another token is stored, for this many ms (-1: without end).
--       {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_read
-- include: epoch_guard
-- include: epoch_raise
local holder = redis.call('get', KEYS[1])
if not holder then
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[4])
    return nil
end
local left = redis.call('pttl', KEYS[1])
if (holder == ARGV[1] and ARGV[3] == '1') or (holder == ARGV[5] and ARGV[5] ~= '') then
    -- A time to live is never shortened; a key without one (PERSIST) gets one again.
    redis.call('set', KEYS[1], ARGV[1], 'px', math.max(left, tonumber(ARGV[4])))
    return nil
end
return left
