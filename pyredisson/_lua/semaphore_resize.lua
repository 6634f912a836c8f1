-- Sets the number of permits in all, those taken included; fewer than none may be available then. It is recorded: Redisson
-- stores the available ones alone. Permits that Redisson has added are not in the record, and count when more are available
-- than it says.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits in all (string)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 permits in all  3 PUBLISH or SPUBLISH  4 permits in all until now, if that is not
--       recorded; empty if the caller does not know it either
-- Reply 1: done.  0: how many there are in all is not known.  {'stale', number}: a newer request has overtaken it.
local waiting, reply = KEYS[5], 0
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: observers
-- include: hand_out
local stored, in_all = redis.call('get', KEYS[1]), 0
local available = tonumber(stored or 0) or 0
if stored then
    redis.call('incrby', KEYS[1], 0)  -- Fails unless it is a number, before anything is published.
    in_all = tonumber(redis.call('get', KEYS[4]) or ARGV[4])
end
if in_all then
    local given = string.format('%.0f', tonumber(ARGV[2]) - math.max(in_all, available))
    if given ~= '0' or not stored then
        -- include: give_permits
    end
    in_all, reply = ARGV[2], 1
    -- include: record_total
end
-- include: record
