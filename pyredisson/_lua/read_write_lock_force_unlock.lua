-- Frees the lock if it is read, or if it is written, for all its owners, and wakes the waiters. Holds of readers are
-- left to expire: without the lock they do not count.
-- KEYS  1 lock (hash)  2 epoch of the caller  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
--       4 PUBLISH, SPUBLISH or '' (do not publish)  5 message  6 'read' or 'write'
-- Reply 1: freed.  nil: that side was free.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_of_caller
-- include: epoch_guard
local reply = false
if redis.call('hget', KEYS[1], 'mode') == ARGV[6] then
    -- include: forced
    if listed then
        local reads = false
        -- include: observers
        -- include: choose
        -- include: sides
        -- include: notify
    end
    -- include: publish_message
    redis.call('del', KEYS[1])
    reply = 1
end
-- include: epoch_store
return reply
