-- Releases permits, whichever owner acquired them, and notifies the waiters.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits  3 PUBLISH or SPUBLISH
-- Reply 1: done.  {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
local waiting, given = KEYS[4], ARGV[2]
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: observers
-- include: hand_out
-- include: give_permits
redis.call('set', KEYS[2], ARGV[1] .. ' 1', 'px', 60000)
local reply = 1
-- include: denied
return reply
