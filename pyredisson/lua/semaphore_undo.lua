-- Gives back what a request took whose caller has gone away, and sees to it that no late copy of it takes anything.
-- KEYS  1 semaphore (string)  2 channel  3 what the owner asked last
-- ARGV  1 number of this request  2 number of the one to undo  3 PUBLISH or SPUBLISH
-- Reply integer: how many permits were given back.  {'stale', number}: overtaken by a newer request.
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
local taken = '0'
if number == ARGV[2] and outcome ~= '0' then
    local stored = redis.call('get', KEYS[1])
    if stored then  -- Else somebody has deleted the semaphore since, and its permits with it.
        taken = outcome
        local total = (tonumber(stored) or 0) + tonumber(taken)
        redis.call(ARGV[3], KEYS[2], string.format('%.0f', total))
        redis.call('incrby', KEYS[1], taken)
    end
end
redis.call('set', KEYS[3], ARGV[1] .. ' ' .. taken, 'px', 60000)
return tonumber(taken)
