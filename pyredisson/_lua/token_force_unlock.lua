-- Frees a lock that is a string, whatever its token. Publishes nothing.
-- KEYS  1 lock (string)  2 epoch of the caller
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
-- Reply 1: it was locked.  nil: it was free.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_of_caller
-- include: epoch_guard
local reply = redis.call('get', KEYS[1]) and redis.call('del', KEYS[1])
-- include: epoch_store
return reply
