-- Releases one hold of the write side. The last one frees the lock, or leaves it to what its owner reads; either way
-- all waiters are woken.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 channel
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease of the remaining holds, ms
--       5 holds the client counts ('0': they are lost, remove what is stored)
--       6 PUBLISH, SPUBLISH or '' (do not publish)  7 message
-- Reply 1 + n: written no more, and n connections were notified.  0: still held.
--       nil: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); then it accepts the rest.
-- include: epoch_guard
local lease = tonumber(ARGV[4])
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local held = found[1] == 'write' and found[2]
-- include: holds_left
local reply = false
if left > 0 then
    -- include: release_one
elseif left == 0 then
    -- include: announce
    if redis.call('hlen', KEYS[1]) == 2 then
        redis.call('del', KEYS[1])
    else
        redis.call('hdel', KEYS[1], ARGV[1])
        redis.call('hset', KEYS[1], 'mode', 'read')
    end
elseif not found[1] and ARGV[3] ~= '1' and ARGV[6] ~= '' and redis.call('exists', KEYS[1]) == 0 then
    -- The lock has expired without a message, and waiters may be sleeping until its time is over.
    redis.pcall(ARGV[6], KEYS[3], ARGV[7])
end
-- include: epoch_store
return reply
