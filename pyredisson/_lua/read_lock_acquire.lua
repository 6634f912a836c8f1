-- Acquires the read side, or one more hold for an owner who holds it. The holder of the write side may read, too.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 the new hold (string, lives as long as its lease)
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
-- Reply nil: acquired.  integer: another owner writes, for this many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_read
-- include: epoch_guard
-- include: epoch_raise
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, held = found[1], found[2]
if not mode then
    -- include: no_hold
    local left = redis.call('pttl', KEYS[1])
    if left ~= -2 then
        return left -- It is a lock of another kind.
    end
    redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
    -- include: first_lease
    local hold = redis.pcall('set', KEYS[3], 1, 'px', ARGV[4])
    if hold.err then
        redis.call('del', KEYS[1])
        return hold
    end
    return nil
end
local wanted = tonumber(ARGV[5]) + 1
local done = ARGV[3] == '1' and held and tonumber(held) == wanted
if ARGV[5] ~= '0' then
    if not done and held ~= ARGV[5] then
        return {'lost'}
    end
    -- The lock lives as long as any reader; this one may have expired.
    local holds = string.match(KEYS[3], '^(.*:)%d+$')
    local live = 0
    for i = 1, tonumber(held) do
        live = live + redis.call('exists', holds .. i)
    end
    if live == 0 then
        return {'lost'}
    end
elseif mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
    return redis.call('pttl', KEYS[1])
end
-- include: live_for
if done and redis.call('pttl', KEYS[3]) ~= -2 then
    live_for(KEYS[3], ARGV[4])
else
    -- If the client counts no hold, those in Redis are left over: the count starts again at 1.
    redis.call('hset', KEYS[1], ARGV[1], wanted)
    redis.call('set', KEYS[3], 1, 'px', ARGV[4])
end
live_for(KEYS[1], ARGV[4])
return nil
