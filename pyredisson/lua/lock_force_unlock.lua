-- Frees the lock for all its owners, and wakes the waiters.
-- KEYS  1 lock (hash)  2 epoch of the caller  3 channel
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
--       4 PUBLISH, SPUBLISH or '' (do not publish)  5 message  6 clients that wait (a key, but not one of KEYS)
-- Reply array: the owners who held it.  nil: it was free.  {'stale', epoch}: a newer request has overtaken it.
local stored = redis.call('get', KEYS[2])
-- include: epoch_guard
local lease = 0
local owners = redis.call('hkeys', KEYS[1])
if #owners > 0 then
    local publish, message, waiting = ARGV[4], ARGV[5], ARGV[6]
    local heard, denied = 0, false
    if publish ~= '' then
        if redis.pcall('exists', waiting) == 1 then
            -- include: ears
            -- include: choose
            -- include: notify
        end
        redis.call(publish, KEYS[3], message)
    end
    redis.call('del', KEYS[1])
end
-- include: epoch_store
return #owners > 0 and owners
