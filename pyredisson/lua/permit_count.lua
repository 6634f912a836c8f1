-- Counts permits, after making all available whose time is over. Asking again does no harm.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel
-- ARGV  1 PUBLISH or SPUBLISH
-- Reply {available, taken}; available is nil if the semaphore has no permits yet.
local time = redis.call('time')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
local purged = 0
repeat  -- In parts: unpack() takes no more than some thousands.
    local expired = redis.call('zrangebyscore', KEYS[2], 0, now, 'limit', 0, 1000)
    if #expired > 0 then
        redis.call('zrem', KEYS[2], unpack(expired))
        purged = purged + #expired
    end
until #expired < 1000
if purged > 0 then
    local total = redis.call('incrby', KEYS[1], purged)
    if total > 0 then
        redis.call(ARGV[1], KEYS[3], string.format('%.0f', total))
    end
end
return {redis.call('get', KEYS[1]), redis.call('zcount', KEYS[2], 0, '+inf')}
