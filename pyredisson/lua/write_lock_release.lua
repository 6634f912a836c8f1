-- Gives back one hold of the write side. The last one frees the lock, or leaves it to what its owner reads; either way
-- all who wait are woken.
-- KEYS  1 lock (hash)  2 channel  3 epoch of the owner
-- ARGV  1 message  2 lease of the holds that remain, ms  3 owner
--       4 holds the client counts ('0': it lost them, give up whatever stands here)
--       5 epoch  6 '1' if an earlier copy of this request may have run  7 PUBLISH, SPUBLISH or '' (nobody is told)
-- Reply 1 + n: written no more, and n connections heard of it.  0: still held.
--       nil: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); it then lets the rest run.
local stored = redis.call('get', KEYS[3])
if stored and tonumber(stored) > tonumber(ARGV[5]) then
    return {'stale', stored}
end
local reply = false
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[3])
local held = found[1] == 'write' and found[2]
local left = -1
if held and (held == ARGV[4] or ARGV[4] == '0') then
    left = math.max(tonumber(ARGV[4]) - 1, 0)
elseif held and ARGV[6] == '1' and tonumber(held) == tonumber(ARGV[4]) - 1 then
    left = tonumber(held)
end
if left > 0 then
    redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[2])))
    redis.call('hincrby', KEYS[1], ARGV[3], left - tonumber(held))
    reply = 0
elseif left == 0 then
    -- The message leaves when the script is over. It goes first: a user who may not publish shall free nothing.
    reply = 1
    if ARGV[7] ~= '' then
        reply = 1 + redis.call(ARGV[7], KEYS[2], ARGV[1])
    end
    if redis.call('hlen', KEYS[1]) == 2 then
        redis.call('del', KEYS[1])
    else
        redis.call('hdel', KEYS[1], ARGV[3])
        redis.call('hset', KEYS[1], 'mode', 'read')
    end
elseif not found[1] and ARGV[6] ~= '1' and ARGV[7] ~= '' and redis.call('exists', KEYS[1]) == 0 then
    -- It has gone without a word, and some may wait for its time to be over.
    redis.pcall(ARGV[7], KEYS[2], ARGV[1])
end
if ARGV[5] ~= '0' and stored ~= ARGV[5] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[3], 60000)
    redis.call('set', KEYS[3], ARGV[5], 'px', math.max(60000, tonumber(ARGV[2])))
end
return reply
