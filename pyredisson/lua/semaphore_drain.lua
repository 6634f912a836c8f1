-- Takes all permits that are available; a debt (less than none) is forgiven.
-- KEYS  1 semaphore (string)  2 what the owner asked last
-- ARGV  1 number of the request
-- Reply integer: how many there were.  {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[2]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[2], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
local taken = redis.call('get', KEYS[1])
if taken then
    redis.call('incrby', KEYS[1], 0)  -- An error, unless it is a number.
    redis.call('set', KEYS[1], 0)
else
    redis.call('pexpire', KEYS[2], 60000)
    taken = '0'
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. taken, 'px', 60000)
return tonumber(taken)
