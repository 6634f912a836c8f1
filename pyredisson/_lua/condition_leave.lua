-- Takes out of the set one who no longer waits for a condition. If it was notified, but was interrupted, the next one is.
-- KEYS  1 lock (not used)  2 last request of the owner  3 waiters (sorted set)
-- ARGV  1 number of the request  2 PUBLISH or SPUBLISH  3 for how long a waiter may be silent, us
--       4 how many to notify in its place  5 member
-- Reply 1: it still waited.  0: it was notified.  {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: number_guard
-- include: repeated
-- include: keep_record
local reply = redis.call('zrem', KEYS[3], ARGV[5])
local wanted = reply == 0 and tonumber(ARGV[4]) or 0
-- include: wake
-- include: record
