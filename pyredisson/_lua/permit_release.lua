-- Releases one permit by its id, and notifies the waiters. Also undoes an acquire: late copies of it are stale then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 id, sixteen bytes  3 PUBLISH or SPUBLISH
-- Reply 1: released.  0: unknown, or it had expired (and is available again in any case).
--       {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
local waiting, given = KEYS[5], 1
-- include: number_guard
-- include: repeated
-- include: keep_record
local ends = redis.call('zscore', KEYS[4], ARGV[2])
local reply = 0
-- include: observers
-- include: hand_out
if ends then
    -- include: now
    reply = tonumber(ends) > now and 1 or 0
    local available = tonumber(redis.call('get', KEYS[1]))
    -- include: give_permits
    redis.call('zrem', KEYS[4], ARGV[2])
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', 60000)
-- include: denied
return reply
