-- Frees the lock if it is read, or if it is written, for all its owners, and wakes the waiters. Holds of readers are
-- left to expire: without the lock they do not count.
-- KEYS  1 lock (hash)  2 epoch of the caller  3 channel
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
--       4 PUBLISH, SPUBLISH or '' (do not publish)  5 message  6 'read' or 'write'
-- Reply 1: freed.  nil: that side was free.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_guard
local lease = 0
local reply = false
if redis.call('hget', KEYS[1], 'mode') == ARGV[6] then
    if ARGV[4] ~= '' then
        redis.call(ARGV[4], KEYS[3], ARGV[5])
    end
    redis.call('del', KEYS[1])
    reply = 1
end
-- include: epoch_store
return reply
