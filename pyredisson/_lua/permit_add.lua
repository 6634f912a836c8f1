-- Adds permits to those available, or removes some (even below zero), and notifies the waiters of an addition.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits, may be negative  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
-- include: keep_record
local stored = redis.call('get', KEYS[1])  -- Fails if it is no string: nothing is published then.
if tonumber(ARGV[2]) > 0 then
    -- include: observers
    -- include: hand_out
    hand_out(KEYS[4], ARGV[3], (tonumber(stored or 0) or 0) + tonumber(ARGV[2]), '$NOTIFIED')
    redis.call(ARGV[3], KEYS[3], ARGV[2])
end
redis.call('incrby', KEYS[1], ARGV[2])
redis.call('persist', KEYS[1])  -- Redisson sets the sum, which removes a TTL.
local reply = 1
-- include: record
