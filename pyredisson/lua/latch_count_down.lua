-- Counts a latch down; at zero the key goes, and those who wait are let through.
-- KEYS  1 latch (string)  2 channel  3 what the owner asked last
-- ARGV  1 number of the request  2 message  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (PEXPIRE); it then lets the rest run.
local number, outcome = string.match(redis.call('get', KEYS[3]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[3], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
redis.call('pexpire', KEYS[3], 60000)
local count = tonumber(redis.call('get', KEYS[1]) or 0)
if count and count <= 1 then
    if count == 1 then
        redis.call(ARGV[3], KEYS[2], ARGV[2])
    end
    redis.call('del', KEYS[1])
else
    redis.call('decr', KEYS[1])
end
redis.call('set', KEYS[3], ARGV[1] .. ' 1', 'px', 60000)
return 1
