-- Frees a lock that is a string, whoever holds it. Nobody is told.
-- KEYS  1 lock (string)  2 epoch of the caller
-- ARGV  1 epoch
-- Reply 1: it was locked.  nil: it was free.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[1]) then
    return {'stale', stored}
end
local reply = false
if redis.call('get', KEYS[1]) then
    redis.call('del', KEYS[1])
    reply = 1
end
if ARGV[1] ~= '0' and stored ~= ARGV[1] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[2], 60000)
    redis.call('set', KEYS[2], ARGV[1], 'px', 60000)
end
return reply
