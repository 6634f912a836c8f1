-- Releases one hold; the last one frees the lock and wakes the waiters.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease of the remaining holds, ms
--       5 holds the client counts ('0': they are lost, remove what is stored)
--       6 PUBLISH, SPUBLISH or '' (do not publish)  7 message
-- Reply 1 + n: free, and n connections were notified.  0: still held.  nil: the owner does not hold what the client
--       counts.  {'stale', epoch}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE, ZREM); then it accepts the rest.
local waiting = KEYS[4]
-- include: release
-- include: epoch_guard
local held = redis.call('hget', KEYS[1], ARGV[1])
-- include: holds_left
if left > 0 then
    -- include: release_one
elseif left == 0 then
    -- Messages come first (Redis sends them when the script ends): a user who may not publish must free nothing.
    if publish ~= '' then
        local first = listed and redis.pcall('zrange', waiting, 0, 2) or {}
        -- A client that is alone in the queue gets the usual message, as its observer.
        local alone = #first == 2 and first[2] == '$OBSERVER' .. string.match(first[1], '^[^:]*')
        if alone then
            heard = redis.call(publish, KEYS[3], message)
        end
        if heard == 0 and first[1] then
            -- include: observers
            -- include: choose
            -- include: notify
        end
        if not alone then
            heard = heard + redis.call(publish, KEYS[3], message)
        end
    end
    redis.call('del', KEYS[1])
    reply = 1 + heard
    -- include: denied
end
-- include: epoch_store
return reply
