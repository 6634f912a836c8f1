-- Takes the read side, or takes it once more for an owner who holds it. The holder of the write side may take it, too.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 the hold that is taken (string, lives as long as its lease)
-- ARGV  1 lease, ms  2 owner  3 holds the client counts  4 epoch  5 '1' if an earlier copy of this request may have run
-- Reply nil: taken.  integer: another writes, for so many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[2])
local mode, held = found[1], found[2]
if not mode then
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
    local left = redis.call('pttl', KEYS[1])
    if left ~= -2 then
        return left -- It is a lock of another kind.
    end
    redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], 1)
    local ends = redis.pcall('pexpire', KEYS[1], ARGV[1])
    local hold = ends == 1 and redis.pcall('set', KEYS[3], 1, 'px', ARGV[1]) or ends
    if ends ~= 1 or hold.err then
        -- This user may not do that. Nobody is left with a lock that never ends.
        redis.call('del', KEYS[1])
        return hold
    end
    return nil
end
local wanted = tonumber(ARGV[3]) + 1
local done = ARGV[5] == '1' and held and tonumber(held) == wanted
if ARGV[3] ~= '0' then
    if not done and held ~= ARGV[3] then
        return {'lost'}
    end
    -- The lock lives as long as any reader; this one may have ended.
    local holds = string.match(KEYS[3], '^(.*:)%d+$')
    local alive = 0
    for i = 1, tonumber(held) do
        alive = alive + redis.call('exists', holds .. i)
    end
    if alive == 0 then
        return {'lost'}
    end
elseif mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 0 then
    return redis.call('pttl', KEYS[1])
end
local hold = done and redis.call('pttl', KEYS[3]) or -2
if not held then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
elseif hold == -2 then
    -- If the client counts no hold, what stands here is over for it, and the first hold starts at 1.
    redis.call('hset', KEYS[1], ARGV[2], wanted)
end
-- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
if hold == -2 then
    redis.call('set', KEYS[3], 1, 'px', ARGV[1])
elseif hold < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[3], ARGV[1])
end
return nil
