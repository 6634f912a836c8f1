-- Releases one hold of the write side. The last one frees the lock, or leaves it to what its owner reads; either way
-- the waiters are woken: of the clients in the wait queue those who can have it, of the others all.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease of the remaining holds, ms
--       5 holds the client counts ('0': they are lost, remove what is stored)
--       6 PUBLISH, SPUBLISH or '' (do not publish)  7 message
-- Reply 1 + n: written no more, and n connections were notified.  0: still held.
--       nil: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE, ZREM); then it accepts the rest.
local waiting = KEYS[4]
-- include: release
-- include: epoch_guard
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, held = found[1], found[1] == 'write' and found[2]
-- include: holds_left
if left > 0 then
    -- include: release_one
elseif left == 0 then
    local reads = redis.call('hlen', KEYS[1]) > 2
    if listed then
        -- include: observers
        -- include: choose
        -- include: sides
        -- include: notify
    end
    -- include: publish_message
    reply = 1 + heard
    -- include: denied
    if reads then
        redis.call('hdel', KEYS[1], ARGV[1])
        redis.call('hset', KEYS[1], 'mode', 'read')
    else
        redis.call('del', KEYS[1])
    end
end
-- include: expired
-- include: epoch_store
return reply
