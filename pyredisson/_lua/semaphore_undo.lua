-- Releases what a request took whose caller no longer waits for it. No late copy of that request takes anything then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of this request  2 number of the one to undo  3 PUBLISH or SPUBLISH
-- Reply integer: how many permits were released.  {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
local waiting, given = KEYS[4], '0'
-- include: number_guard
-- include: repeated
-- include: keep_record
-- If the semaphore has been deleted since, so have its permits.
local available = number == ARGV[2] and outcome ~= '0' and tonumber(redis.call('get', KEYS[1]))
if available then
    given = outcome
    -- include: observers
    -- include: hand_out
    -- include: give_permits
end
local reply = given
-- include: record
