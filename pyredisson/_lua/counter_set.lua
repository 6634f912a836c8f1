-- Gives a semaphore its permits, or a latch its count, unless it has some already; notifies the waiters.
-- KEYS  1 counter (string)  2 last request of the owner  3 channel
--       4 of a semaphore whose permits do not expire: permits in all (string)
--       last, of a semaphore: wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 value  3 PUBLISH or SPUBLISH  4 message  5 time to live, ms, or empty
--       6 '1' if the permits in all are to be recorded, else '0'
-- Reply 1: set.  0: there was one.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
local reply = 0
if redis.call('get', KEYS[1]) then
    -- That there was one is recorded even if the server is out of memory: a late copy must not set anything.
    -- include: keep_record
else
    -- include: observers
    -- include: hand_out
    hand_out(KEYS[4 + tonumber(ARGV[6])], ARGV[3], tonumber(ARGV[2]), '$NOTIFIED')
    -- Redis sends the message when the script ends. It comes first, so that a user who may not publish changes nothing.
    redis.call(ARGV[3], KEYS[3], ARGV[4])
    redis.call('set', KEYS[1], ARGV[2])
    if ARGV[5] ~= '' then
        redis.call('pexpire', KEYS[1], ARGV[5])
    end
    if ARGV[6] == '1' then
        local in_all = ARGV[2]
        -- include: record_total
    end
    reply = 1
end
-- include: record
