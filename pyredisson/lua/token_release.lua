-- Frees a lock that is a string, if it is the token of this hold. Nobody is told.
-- KEYS  1 lock (string)  2 epoch of the owner
-- ARGV  1 lease, ms  2 token of the hold  3 epoch
-- Reply 1: free.  nil: it is not this hold's.  {'stale', epoch}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); it then lets the rest run.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[3]) then
    return {'stale', stored}
end
local reply = false
if redis.call('get', KEYS[1]) == ARGV[2] then
    redis.call('del', KEYS[1])
    reply = 1
end
if ARGV[3] ~= '0' and stored ~= ARGV[3] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[2], 60000)
    redis.call('set', KEYS[2], ARGV[3], 'px', math.max(60000, tonumber(ARGV[1])))
end
return reply
