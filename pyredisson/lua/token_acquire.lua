-- Takes a lock that is a string, the token of its hold: SET name token NX PX lease.
-- KEYS  1 lock (string)  2 epoch of the owner
-- ARGV  1 lease, ms  2 token of the new hold  3 token of this owner's hold before, which is over; '' if there was none
--       4 epoch  5 '1' if an earlier copy of this request may have run
-- Reply nil: taken.  integer: another token stands there, for so many ms (-1: without end).
--       {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
local holder = redis.call('get', KEYS[1])
if not holder then
    redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[1])
    return nil
end
if (holder == ARGV[2] and ARGV[5] == '1') or (holder == ARGV[3] and ARGV[3] ~= '') then
    -- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
    redis.call('set', KEYS[1], ARGV[2], 'px', math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[1])))
    return nil
end
return redis.call('pttl', KEYS[1])
