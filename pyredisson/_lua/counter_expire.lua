-- Lets a semaphore or a latch expire with all its keys, or not expire any more; or deletes it, and notifies the waiters who
-- do not wait for what does not exist.
-- KEYS  1 counter (string)  2 last request of the owner  3 channel  4.. its other keys
-- ARGV  1 number of the request  2 when it expires, ms from now (0: it is deleted, -1: never)  3 PUBLISH or SPUBLISH
--       4 message to the waiters; empty if none is notified
-- Reply 1: done.  0: it does not exist, or did not expire anyway.  {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: number_guard
-- include: repeated
-- include: keep_record
local function expire(key)
    if ARGV[2] == '-1' then
        return redis.call('persist', key)
    elseif ARGV[2] == '0' then
        return redis.call('del', key)
    end
    return redis.call('pexpire', key, ARGV[2])
end
if redis.call('get', KEYS[1]) and ARGV[4] ~= '' then  -- It fails if the key is of another type.
    -- Redis sends the message when the script ends. It comes first: a user who may not publish must change nothing.
    redis.call(ARGV[3], KEYS[3], ARGV[4])
end
local reply = expire(KEYS[1])
for i = 4, #KEYS do
    expire(KEYS[i])
end
-- include: record
