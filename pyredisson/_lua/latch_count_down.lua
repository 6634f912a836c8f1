-- Counts a latch down; at zero the key is deleted, and the waiters are notified.
-- KEYS  1 latch (string)  2 last request of the owner  3 channel
-- ARGV  1 number of the request  2 message  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: number_guard
-- include: repeated
-- include: keep_record
local count = tonumber(redis.call('get', KEYS[1]) or 0)
if count and count <= 1 then
    if count == 1 then
        redis.call(ARGV[3], KEYS[3], ARGV[2])
    end
    redis.call('del', KEYS[1])
else
    redis.call('decr', KEYS[1])
end
local reply = 1
-- include: record
