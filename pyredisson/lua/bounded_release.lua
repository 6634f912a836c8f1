-- Releases permits as semaphore_release does, unless there would be more of them than the semaphore had at first.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits  3 PUBLISH or SPUBLISH  4 the most that may be available
-- Reply 1: done.  0: too many.  {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
local waiting, given = KEYS[4], ARGV[2]
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: observers
-- include: hand_out
local reply = 0
if tonumber(redis.call('get', KEYS[1]) or ARGV[4]) + tonumber(given) <= tonumber(ARGV[4]) then
    -- include: give_permits
    reply = 1
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', 60000)
-- include: denied
return reply
