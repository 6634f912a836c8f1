-- Frees the lock for all its owners, and wakes the waiters.
-- KEYS  1 lock (hash)  2 epoch of the caller  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
--       4 PUBLISH, SPUBLISH or '' (do not publish)  5 message
-- Reply array: the owners who held it.  nil: it was free.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_of_caller
-- include: epoch_guard
local owners = redis.call('hkeys', KEYS[1])
if #owners > 0 then
    -- include: forced
    if listed then
        -- include: observers
        -- include: choose
        -- include: notify
    end
    -- include: publish_message
    redis.call('del', KEYS[1])
end
-- include: epoch_store
return #owners > 0 and owners
