-- Takes a client that waits for permits no more out of the wait queue. If there are permits, others are notified: the
-- client may have been notified, and have left since. The first of them is notified of when the next permit expires.
-- KEYS  1 semaphore (string)  2 wait queue (sorted set)
--       3 of one whose permits expire: permits taken (sorted set)
-- ARGV  1 the client, as it stands there  2 PUBLISH or SPUBLISH
-- Reply 1: done
-- include: now
-- include: observers
-- include: hand_out
-- include: leave
hand_out(KEYS[2], ARGV[2], tonumber(redis.call('get', KEYS[1]) or 0) or 0, '$NOTIFIED_ALONE')
local first = redis.call('zrangebyscore', KEYS[2], '-inf', '($OBSERVERS', 'limit', 0, 1)[1]
local expires = KEYS[3] and redis.call('zrangebyscore', KEYS[3], '-inf', '(1e14', 'withscores', 'limit', 0, 1)[2]
if first and expires then
    local wait = string.format('%.0f', math.max(tonumber(expires) - now, 0))
    redis.call(ARGV[2], KEYS[2] .. ':' .. string.match(first, '^[^:]*'), '$EXPIRES' .. wait)
end
return 1
