-- Releases permits, whichever owner acquired them, and notifies the waiters.
-- Those of a semaphore whose number of permits the caller knows went with it if it no longer exists: nothing is released
-- then, so that the next acquire sets them all again.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits  3 PUBLISH or SPUBLISH
--       4 the most that may be available then, by a caller that knows the number of permits
-- Reply 1: done.  0: there would be more.  {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
local waiting, given = KEYS[4], ARGV[2]
-- include: number_guard
-- include: repeated
-- include: observers
-- include: hand_out
local available = tonumber(redis.call('get', KEYS[1]))
local reply = (available or not ARGV[4]) and 0 or 1
if not ARGV[4] or available and available + tonumber(given) <= tonumber(ARGV[4]) then
    -- include: give_permits
    reply = 1
else
    -- A refusal is recorded even if the server is out of memory.
    -- include: keep_record
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', '60000')
-- include: denied
return reply
