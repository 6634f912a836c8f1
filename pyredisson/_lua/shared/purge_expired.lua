-- Makes all expired permits available and notifies the waiters.
-- Expects  KEYS[1] semaphore; KEYS[3] channel; taken, waiting: keys; publish: PUBLISH or SPUBLISH; now (now);
--          hand_out(waiting, publish, available, message)
-- Defines  purged: how many
local purged = 0
repeat  -- In parts: unpack() takes a few thousand values at most.
    local expired = redis.call('zrangebyscore', taken, 0, string.format('%.0f', now), 'limit', 0, 1000)
    if #expired > 0 then
        redis.call('zrem', taken, unpack(expired))
        purged = purged + #expired
    end
until #expired < 1000
if purged > 0 then
    local total = redis.call('incrby', KEYS[1], purged)
    if total > 0 then
        hand_out(waiting, publish, total, '$NOTIFIED')
        redis.call(publish, KEYS[3], string.format('%.0f', total))
    end
end
