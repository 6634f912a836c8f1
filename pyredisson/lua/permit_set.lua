-- Sets the number of permits in all, those taken included; fewer than none may be available then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits in all  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
redis.call('pexpire', KEYS[2], 60000)
-- include: observers
-- include: hand_out
local stored = redis.call('get', KEYS[1])
if stored then
    local total = (tonumber(stored) or 0) + redis.call('zcount', KEYS[4], 0, '+inf')
    if total ~= tonumber(ARGV[2]) then
        hand_out(KEYS[5], ARGV[3], (tonumber(stored) or 0) + tonumber(ARGV[2]) - total, '$NOTIFIED')
        redis.call(ARGV[3], KEYS[3], ARGV[2])
        redis.call('incrby', KEYS[1], string.format('%.0f', tonumber(ARGV[2]) - total))
    end
else
    hand_out(KEYS[5], ARGV[3], tonumber(ARGV[2]), '$NOTIFIED')
    redis.call(ARGV[3], KEYS[3], ARGV[2])
    redis.call('set', KEYS[1], ARGV[2])
end
redis.call('set', KEYS[2], ARGV[1] .. ' 1', 'px', 60000)
return 1
