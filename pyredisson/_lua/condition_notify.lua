-- Notifies those who have waited longest for a condition, if the caller holds its lock.
-- KEYS  1 lock (hash)  2 last request of the owner  3 waiters (sorted set)
-- ARGV  1 number of the request  2 PUBLISH or SPUBLISH  3 for how long a waiter may be silent, us  4 how many to notify
--       5 owner
-- Reply integer: how many were notified.  -1: the caller does not hold the lock.
--       {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: number_guard
-- include: repeated
-- include: keep_record
local reply = -1
if redis.call('hexists', KEYS[1], ARGV[5]) == 1 then
    local wanted = tonumber(ARGV[4])
    -- include: wake
    reply = woken
end
-- include: record
