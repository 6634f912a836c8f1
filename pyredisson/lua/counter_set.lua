-- Gives a semaphore its permits, or a latch its count, unless it has some already; tells those who wait.
-- KEYS  1 counter (string)  2 channel  3 what the owner asked last
-- ARGV  1 number of the request  2 value  3 message  4 PUBLISH or SPUBLISH
-- Reply 1: set.  0: there was one.  {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[3]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[3], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
local set = 0
if redis.call('get', KEYS[1]) then
    -- That there was one is recorded even if there is no memory: a copy that comes late must not set anything.
    redis.call('pexpire', KEYS[3], 60000)
else
    -- The message leaves when the script is over. It goes first: a user who may not publish shall change nothing.
    redis.call(ARGV[4], KEYS[2], ARGV[3])
    redis.call('set', KEYS[1], ARGV[2])
    set = 1
end
redis.call('set', KEYS[3], ARGV[1] .. ' ' .. set, 'px', 60000)
return set
