-- Takes all available permits; a debt (fewer than none) is cancelled.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 permits in all (string)
-- ARGV  1 number of the request
-- Reply integer: how many there were.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
local reply = redis.call('get', KEYS[1])
if reply then
    redis.call('incrby', KEYS[1], 0)  -- Fails unless it is a number.
    redis.call('set', KEYS[1], 0)  -- As in Redisson, it does not expire any more.
    redis.call('persist', KEYS[3])
else
    -- include: keep_record
    reply = 0
end
-- include: record
