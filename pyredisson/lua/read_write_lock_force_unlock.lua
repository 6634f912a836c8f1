-- Frees the lock if it is read, or if it is written, whoever holds it, and wakes those who wait. Holds of readers stay to
-- their end: without the lock they count for nothing.
-- KEYS  1 lock (hash)  2 channel  3 epoch of the caller
-- ARGV  1 message  2 epoch  3 PUBLISH, SPUBLISH or '' (nobody is told)  4 'read' or 'write'
-- Reply 1: freed.  nil: that side was free.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[3])
if stored and tonumber(stored) > tonumber(ARGV[2]) then
    return {'stale', stored}
end
local reply = false
if redis.call('hget', KEYS[1], 'mode') == ARGV[4] then
    if ARGV[3] ~= '' then
        redis.call(ARGV[3], KEYS[2], ARGV[1])
    end
    redis.call('del', KEYS[1])
    reply = 1
end
if ARGV[2] ~= '0' and stored ~= ARGV[2] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[3], 60000)
    redis.call('set', KEYS[3], ARGV[2], 'px', 60000)
end
return reply
