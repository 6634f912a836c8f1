-- Sets or clears an event, unless it is so already. Its number is odd while it is set, and grows with each change: who has
-- seen another number has missed a change. After a clear it stays for an hour, longer than anyone waits without a check.
-- KEYS  1 event (string)  2 last request of the owner  3 channel
-- ARGV  1 number of the request  2 '1': set, '0': clear  3 message  4 PUBLISH or SPUBLISH
-- Reply 1: changed.  0: it was so.  {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: number_guard
-- include: repeated
-- include: keep_record
local reply = 0
-- INCR fails, since it is no number.
if (tonumber(redis.call('get', KEYS[1]) or 0) or redis.call('incr', KEYS[1])) % 2 ~= tonumber(ARGV[2]) then
    reply = 1
    -- Redis sends the message when the script ends. It comes first, so that a user who may not publish changes nothing.
    if ARGV[2] == '1' then
        redis.call(ARGV[4], KEYS[3], ARGV[3])
        redis.call('incr', KEYS[1])
        redis.call('persist', KEYS[1])
    else
        redis.call('incr', KEYS[1])
        redis.call('pexpire', KEYS[1], 3600000)
    end
end
-- include: record
