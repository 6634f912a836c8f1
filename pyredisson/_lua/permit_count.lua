-- Counts permits, and says when one of them expires, after making all expired ones available. It may be sent any number
-- of times.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 PUBLISH or SPUBLISH  2 id of a permit, sixteen bytes, or empty
-- Reply {available, taken, left}; available is nil if the semaphore has no permits yet; left: ms until that permit
--       expires (-1: never), nil if it is unknown, or has expired.
local taken, publish, waiting = KEYS[2], ARGV[1], KEYS[4]
-- include: now
-- include: observers
-- include: hand_out
-- include: purge_expired
local ends = redis.call('zscore', taken, ARGV[2])
local left = ends and (tonumber(ends) < 922337203685477 and tonumber(ends) - now or -1)
return {redis.call('get', KEYS[1]), redis.call('zcount', taken, 0, '+inf'), left}
