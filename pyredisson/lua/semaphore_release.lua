-- Gives permits back, whoever took them, and wakes those who wait.
-- KEYS  1 semaphore (string)  2 channel  3 what the owner asked last
-- ARGV  1 number of the request  2 permits  3 PUBLISH or SPUBLISH
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
-- The message leaves when the script is over. It goes first: a user who may not publish shall change nothing.
local total = (tonumber(redis.call('get', KEYS[1]) or 0) or 0) + tonumber(ARGV[2])
redis.call(ARGV[3], KEYS[2], string.format('%.0f', total))
redis.call('incrby', KEYS[1], ARGV[2])
redis.call('set', KEYS[3], ARGV[1] .. ' 1', 'px', 60000)
return 1
