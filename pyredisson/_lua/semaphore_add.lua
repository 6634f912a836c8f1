-- Adds permits to those available, or removes some (even below zero), and notifies the waiters.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 permits in all (string), if they are known  5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits, may be negative  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: a newer request has overtaken it.
local waiting, given = KEYS[5], ARGV[2]
-- include: number_guard
-- include: repeated
-- include: keep_record
-- Of what was deleted there is nothing left in all.
local stored = redis.call('get', KEYS[1])
local available, in_all = tonumber(stored), not stored and 0 or tonumber(redis.call('get', KEYS[4]) or '')
-- include: observers
-- include: hand_out
-- include: give_permits
redis.call('persist', KEYS[1])  -- Redisson sets the sum, which removes a TTL.
if in_all then
    in_all = string.format('%.0f', in_all + tonumber(given))
    -- include: record_total
end
local reply = 1
-- include: record
