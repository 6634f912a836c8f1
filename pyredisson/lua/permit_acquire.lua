-- Takes one permit under an id of its own, for a time or for ever.
-- KEYS  1 semaphore (string)  2 permits taken: ids by the time at which they expire (sorted set)  3 channel
--       4 what the owner asked last
-- ARGV  1 number of the request  2 id, sixteen bytes  3 lease, ms (-1: for ever)  4 PUBLISH or SPUBLISH
-- Reply {1, left, wait}: taken; so many are available then, and the next of those taken expires in so many ms (-1: none
--       ever does).  {0, left, wait}: there is none; left is nil if the semaphore was never given any. To a repeat,
--       left and wait are 0.
--       {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[4]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[4], 60000)
    return {tonumber(outcome), 0, 0}
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
local never = 922337203685477
local time = redis.call('time')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local expired = redis.call('zrangebyscore', KEYS[2], 0, string.format('%.0f', now), 'limit', 0, 1)
if #expired > 0 then
    redis.call('zrem', KEYS[2], expired[1])
    local total = redis.call('incrby', KEYS[1], 1)
    if total > 0 then
        redis.call(ARGV[4], KEYS[3], string.format('%.0f', total))
    end
end
local stored = redis.call('get', KEYS[1])
local left = tonumber(stored or 0)
local taken = 0
if redis.call('zscore', KEYS[2], ARGV[2]) then
    -- An earlier copy took it, so long ago that the record has gone.
    redis.call('pexpire', KEYS[4], 60000)
    taken = 1
elseif stored and not (left and left < 1) then
    left = redis.call('decrby', KEYS[1], 1)
    local ends = never
    if ARGV[3] ~= '-1' then
        ends = math.min(now + tonumber(ARGV[3]), never)
    end
    redis.call('zadd', KEYS[2], string.format('%.0f', ends), ARGV[2])
    local ttl = redis.call('pttl', KEYS[1])
    if ttl > 0 then
        redis.call('pexpire', KEYS[2], ttl)
    end
    taken = 1
else
    -- A refusal is recorded even if there is no memory: a copy that comes late must not take anything.
    redis.call('pexpire', KEYS[4], 60000)
end
redis.call('set', KEYS[4], ARGV[1] .. ' ' .. taken, 'px', 60000)
local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
local wait = -1
if first[2] and tonumber(first[2]) < never then
    wait = math.max(tonumber(first[2]) - now, 0)
end
return {taken, stored and left, wait}
