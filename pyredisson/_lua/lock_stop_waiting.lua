-- Takes a client that waits no more out of the wait queue. If the lock is free, the next one is notified: the client
-- may have been notified, and have left since.
-- KEYS  1 lock (hash)  2 wait queue (sorted set)
-- ARGV  1 the client, as it stands there  2 PUBLISH or SPUBLISH
-- Reply 1: done
-- include: observers
-- include: choose
-- include: leave
local free = redis.call('exists', KEYS[1]) == 0
-- include: pass_turn
