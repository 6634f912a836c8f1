-- Says until when a waiter of a fair lock counts as alive. Our waiters store that themselves; their score is later,
-- since it allows for the waits of others. Redisson's waiters have a score only. Drops the first waiters if they have
-- sent no heartbeat in time, and entries without a score.
-- Expects  queue, timeouts, alive: keys; now (now)
-- Defines  believed_until(waiter): ms, 0 for an entry of the queue without a score;
--          drop_dead(kept): the first waiter then, which may be dead if it is in the table kept
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', timeouts, waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', alive, waiter) or score))
end
local function drop_dead(kept)
    local head = redis.call('lindex', queue, 0)
    while head and not kept[head] and believed_until(head) <= now do
        redis.call('zrem', timeouts, head)
        redis.call('hdel', alive, head)
        redis.call('lpop', queue)
        head = redis.call('lindex', queue, 0)
    end
    return head
end
