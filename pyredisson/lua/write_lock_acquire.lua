-- Takes the write side, or takes it once more for an owner who holds it: that adds the lease to what is left.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 the first hold of this owner as a reader (string)
-- ARGV  1 lease, ms  2 owner  3 holds the client counts  4 epoch  5 '1' if an earlier copy of this request may have run
--       6 this owner as a reader  7 the leases of all holds, this one among them, ms
-- Reply nil: taken.  integer: others have it, for so many ms (-1: without end).  {'upgrade'}: this owner reads.
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[2], ARGV[6])
local mode, held, reads = found[1], found[2], found[3]
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
    redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], 1)
    local ends = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if ends ~= 1 then
        -- This user may not do that. Nobody is left with a lock that never ends.
        redis.call('del', KEYS[1])
        return ends
    end
    return nil
end
if mode ~= 'write' or not held then
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
    if mode == 'read' and reads then
        -- It would wait for itself; unless it reads no more, and only the field is left, because others do.
        for i = 1, tonumber(reads) or 0 do
            if redis.call('exists', string.sub(KEYS[3], 1, -2) .. i) == 1 then
                return {'upgrade'}
            end
        end
    end
    return left
end
local wanted = tonumber(ARGV[3]) + 1
if ARGV[5] == '1' and tonumber(held) == wanted then
    wanted = nil -- An earlier copy took it, and added its lease.
elseif wanted > 1 and held ~= ARGV[3] then
    return {'lost'}
end
if wanted then
    -- If the client counts no hold, what stands here is over for it, and the first hold starts at 1.
    redis.call('hset', KEYS[1], ARGV[2], wanted)
end
if wanted and wanted > 1 then
    -- Up to the sum of all, or a holder that goes in and out would add without end: leaving takes nothing off.
    local ends = math.min(math.max(left, 0) + tonumber(ARGV[1]), tonumber(ARGV[7]))
    redis.call('pexpire', KEYS[1], math.max(left, ends))
elseif left < tonumber(ARGV[1]) then
    -- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
