-- Acquires the write side, or one more hold for an owner who holds it: that adds the lease to the remaining time.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 the first hold of this owner as a reader (string)
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
--       6 this owner as a reader  7 the sum of the leases of all holds, with this one, ms
-- Reply nil: acquired.  integer: others hold it, for this many ms (-1: without end).  {'upgrade'}: this owner reads.
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_read
-- include: epoch_guard
-- include: epoch_raise
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[6])
local mode, held, reads = found[1], found[2], found[3]
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    -- include: no_hold
    redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1)
    -- include: first_lease
    return nil
end
if mode ~= 'write' or not held then
    -- include: no_hold
    if mode == 'read' and reads then
        -- It would wait for itself; unless its holds have expired, and only the field is left, because others read.
        for i = 1, tonumber(reads) or 0 do
            if redis.call('exists', string.sub(KEYS[3], 1, -2) .. i) == 1 then
                return {'upgrade'}
            end
        end
    end
    return left
end
-- include: live_for
if ARGV[3] == '1' and tonumber(held) == tonumber(ARGV[5]) + 1 then
    -- An earlier copy acquired it, and added its lease.
    live_for(KEYS[1], ARGV[4])
    return nil
end
-- include: reenter
if wanted > 1 then
    -- At most the sum of all leases, or a holder that re-enters again and again would add without end: a release
    -- subtracts nothing.
    local ends = math.min(math.max(left, 0) + tonumber(ARGV[4]), tonumber(ARGV[7]))
    redis.call('pexpire', KEYS[1], math.max(left, ends))
end
return nil
