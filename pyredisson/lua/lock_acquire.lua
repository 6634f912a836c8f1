-- Takes the lock, or takes it once more for an owner who holds it.
-- KEYS  1 lock (hash)  2 epoch of the owner
-- ARGV  1 lease, ms  2 owner  3 holds the client counts  4 epoch  5 '1' if an earlier copy of this request may have run
-- Reply nil: taken.  integer: another owner has it, for so many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
if redis.call('exists', KEYS[1]) == 0 then
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    local ends = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if ends ~= 1 then
        -- This user may not do that. Nobody is left with a lock that never ends.
        redis.call('del', KEYS[1])
        return ends
    end
    return nil
end
local held = redis.call('hget', KEYS[1], ARGV[2])
if not held then
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
    return redis.call('pttl', KEYS[1])
end
local wanted = tonumber(ARGV[3]) + 1
if held == ARGV[3] then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
elseif wanted == 1 then
    -- The client counts no hold: what stands here is over for it, and the first hold starts at 1.
    redis.call('hset', KEYS[1], ARGV[2], 1)
elseif not (ARGV[5] == '1' and tonumber(held) == wanted) then
    return {'lost'}
end
-- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
