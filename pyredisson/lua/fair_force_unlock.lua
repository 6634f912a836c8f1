-- Frees a fair lock, whoever holds it, and tells the head of the queue. Those who wait keep their places.
-- KEYS  1 lock (hash)  2 channel; each waiter's own is this, ':' and its owner  3 epoch of the caller
--       4 queue (list)  5 timeouts (sorted set)  6 alive (hash; ours alone)
-- ARGV  1 message  2 epoch  3 PUBLISH or SPUBLISH
-- Reply array: the owners who held it.  nil: it was free.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[3])
if stored and tonumber(stored) > tonumber(ARGV[2]) then
    return {'stale', stored}
end
local owners = redis.call('hkeys', KEYS[1])
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local head = redis.call('lindex', KEYS[4], 0)
-- A waiter of ours says itself until when it can be alive; its score has room for the waits of others, too.
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', KEYS[5], waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', KEYS[6], waiter) or score))
end
while head and believed_until(head) <= now do
    redis.call('zrem', KEYS[5], head)
    redis.call('hdel', KEYS[6], head)
    redis.call('lpop', KEYS[4])
    head = redis.call('lindex', KEYS[4], 0)
end
if #owners > 0 then
    if head then
        redis.call(ARGV[3], KEYS[2] .. ':' .. head, ARGV[1])
    end
    redis.call('del', KEYS[1])
end
if ARGV[2] ~= '0' and stored ~= ARGV[2] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[3], 60000)
    redis.call('set', KEYS[3], ARGV[2], 'px', 60000)
end
if #owners == 0 then
    return nil
end
return owners
