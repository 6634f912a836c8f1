-- Takes permits, if there are so many.
-- KEYS  1 semaphore (string)  2 what the owner asked last
-- ARGV  1 number of the request  2 permits
-- Reply {taken, left}: how many were taken, all or none, and how many are available then (0 to a repeat; nil if the
--       semaphore was never given any).
--       {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[2]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[2], 60000)
    return {tonumber(outcome), 0}
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
local stored = redis.call('get', KEYS[1])
local left = tonumber(stored or 0)
local taken = '0'
if stored and not (left and left < tonumber(ARGV[2])) then
    left = redis.call('decrby', KEYS[1], ARGV[2])
    taken = ARGV[2]
else
    -- A refusal is recorded even if there is no memory: a copy that comes late must not take anything.
    redis.call('pexpire', KEYS[2], 60000)
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. taken, 'px', 60000)
return {tonumber(taken), stored and left}
