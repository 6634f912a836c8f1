-- Frees a lock that is a string, if it is the token of this hold. Publishes nothing.
-- KEYS  1 lock (string)  2 epoch of the owner
-- ARGV  1 token of the hold  2 epoch  3 repeat (not used)  4 lease, ms
-- Reply 1: free.  nil: another token or none is stored.  {'stale', epoch}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); then it accepts the rest.
-- include: epoch_read
-- include: epoch_guard
local lease = tonumber(ARGV[4])
local reply = redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])
-- include: epoch_store
return reply
