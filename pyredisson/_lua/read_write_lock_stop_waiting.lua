-- Takes a client that waits no more out of the wait queue. If the lock is free, or read, the clients that can acquire
-- it are notified: this one may have been notified, and have left since.
-- KEYS  1 lock (hash)  2 wait queue (sorted set)
-- ARGV  1 the client, as it stands there  2 PUBLISH or SPUBLISH
-- Reply 1: done
local reads = redis.pcall('hget', KEYS[1], 'mode') == 'read'
-- include: observers
-- include: choose
-- include: sides
-- include: leave
local free = reads or redis.call('exists', KEYS[1]) == 0
-- include: pass_turn
