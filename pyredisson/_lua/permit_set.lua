-- Sets the number of permits in all, those taken included; fewer than none may be available then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits in all  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: observers
-- include: hand_out
local stored = redis.call('get', KEYS[1])
local available = tonumber(stored or 0) or 0
local added = tonumber(ARGV[2]) - available - (stored and redis.call('zcount', KEYS[4], 0, '+inf') or 0)
if added ~= 0 or not stored then
    hand_out(KEYS[5], ARGV[3], available + added, '$NOTIFIED')
    redis.call(ARGV[3], KEYS[3], ARGV[2])
    redis.call('incrby', KEYS[1], string.format('%.0f', added))
end
local reply = 1
-- include: record
