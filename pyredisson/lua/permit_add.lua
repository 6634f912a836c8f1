-- Adds permits to those available, or takes some away (even below zero), and tells those who wait of an addition.
-- KEYS  1 semaphore (string)  2 channel  3 what the owner asked last
-- ARGV  1 number of the request  2 permits, may be negative  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[3]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[3], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
redis.call('pexpire', KEYS[3], 60000)
redis.call('get', KEYS[1])  -- An error, if it is no string: nobody is told of anything then.
if tonumber(ARGV[2]) > 0 then
    redis.call(ARGV[3], KEYS[2], ARGV[2])
end
redis.call('incrby', KEYS[1], ARGV[2])
redis.call('persist', KEYS[1])  -- Redisson sets the sum, and a TTL goes with that.
redis.call('set', KEYS[3], ARGV[1] .. ' 1', 'px', 60000)
return 1
