-- Releases one permit by its id, and notifies the waiters. Also undoes an acquire: late copies of it are stale then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 id, sixteen bytes  3 PUBLISH or SPUBLISH
-- Reply 1: released.  0: unknown, or it had expired (and is available again in any case).
--       {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
local waiting, given = KEYS[5], '1'
-- include: number_guard
-- include: repeated
local ends, reply = redis.call('zscore', KEYS[4], ARGV[2]), 0
-- include: observers
-- include: hand_out
if ends then
    -- Usually it never expires: then the time need not be known.
    reply = (ends == '922337203685477' or tonumber(ends) > server_ms()) and 1 or 0
    local available = tonumber(redis.call('get', KEYS[1]))
    -- include: give_permits
end
redis.call('zrem', KEYS[4], ARGV[2]) -- Accepted even if the server is out of memory, and then SET, too.
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', '60000')
-- include: denied
return reply
