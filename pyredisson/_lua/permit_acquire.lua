-- Takes permits under an id each, all or none, for a time or for ever.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 permits taken: ids by the time at which they expire (sorted set)
--       5 in the first attempt of a client: the key that only the other kind of semaphore has
-- ARGV  1 number of the request  2 ids, sixteen bytes each  3 PUBLISH or SPUBLISH  4 lease, ms (-1: for ever)
--       5 only of a client that waits
-- Reply {count, left, wait}: how many were taken; left: the permits available then; wait: ms until they expire (-1:
--       never).  {0, left, wait}: there are too few; left is nil if the semaphore was never given any; wait: ms until the
--       next of all expires; for a client that waits, in any case. In the reply to a repeated request, left and wait are 0.
--       {-1}: the semaphore is of the other kind.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
if number == ARGV[1] then
    -- A repeated request is answered with the outcome of the first copy. More copies may be on their way.
    -- include: keep_record
    return {tonumber(outcome), 0, 0}
end
if KEYS[5] and not ARGV[5] and redis.call('exists', KEYS[5]) == 1 then return {-1} end
-- include: now
-- include: permit_end
-- include: permit_ids
local expired = redis.call('zrangebyscore', KEYS[4], '0', string.format('%.0f', now), 'limit', '0', #ids)
if #expired > 0 then
    redis.call('zrem', KEYS[4], unpack(expired))
    local total = redis.call('incrby', KEYS[1], #expired)
    if total > 0 then
        redis.call(ARGV[3], KEYS[3], string.format('%.0f', total))
    end
end
local stored = redis.call('get', KEYS[1])
local left, taken = tonumber(stored or 0), #ids
if stored and not (left and left < #ids) then
    left = redis.call('decrby', KEYS[1], #ids)
    for _, permit in ipairs(ids) do
        if redis.call('zadd', KEYS[4], 'nx', score, permit) == 0 then
            left = redis.call('incrby', KEYS[1], 1) -- An earlier copy took it, so long ago that the record has gone.
        end
    end
    local ttl = redis.call('pttl', KEYS[1])
    if ttl > 0 then
        redis.call('pexpire', KEYS[4], ttl)
    end
else
    taken = redis.call('zscore', KEYS[4], ids[#ids]) and #ids or 0
    -- A refusal is recorded even if the server is out of memory: a late copy must not take anything.
    -- include: keep_record
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. taken, 'px', '60000')
if taken == 0 or ARGV[5] then -- Others who wait were given the time of those that were taken before.
    ends = tonumber(redis.call('zrange', KEYS[4], 0, 0, 'withscores')[2] or never)
end
local wait = ends < never and math.max(ends - now, 0) or -1
return {taken, stored and left, wait}
