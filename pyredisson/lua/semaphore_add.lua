-- Adds permits to those available, or removes some (even below zero), and notifies the waiters.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits, may be negative  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
local waiting = KEYS[4]
-- include: number_guard
-- include: repeated
redis.call('pexpire', KEYS[2], 60000)
local given = ARGV[2]
-- include: observers
-- include: hand_out
-- include: give_permits
redis.call('persist', KEYS[1])  -- Redisson sets the sum, which removes a TTL.
redis.call('set', KEYS[2], ARGV[1] .. ' 1', 'px', 60000)
return 1
