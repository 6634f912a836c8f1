-- Counts permits, after making all expired ones available. It may be sent any number of times.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 PUBLISH or SPUBLISH
-- Reply {available, taken}; available is nil if the semaphore has no permits yet.
local taken, publish, waiting = KEYS[2], ARGV[1], KEYS[4]
-- include: now
-- include: observers
-- include: hand_out
-- include: purge_expired
return {redis.call('get', KEYS[1]), redis.call('zcount', taken, 0, '+inf')}
