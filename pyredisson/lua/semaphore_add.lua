-- Adds permits to those available, or removes some (even below zero), and notifies the waiters.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits, may be negative  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
local waiting, given = KEYS[4], ARGV[2]
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: observers
-- include: hand_out
-- include: give_permits
redis.call('persist', KEYS[1])  -- Redisson sets the sum, which removes a TTL.
local reply = 1
-- include: record
