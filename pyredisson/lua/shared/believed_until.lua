-- Says until when a waiter of a fair lock counts as alive. Our waiters store that themselves; their score is later,
-- since it allows for the waits of others. Redisson's waiters have a score only.
-- Expects  timeouts, alive: keys
-- Defines  believed_until(waiter): ms, 0 for an entry of the queue without a score
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', timeouts, waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', alive, waiter) or score))
end
