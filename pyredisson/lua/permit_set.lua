-- Makes the permits so many in all, those taken included; what is available may fall below zero.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel  4 what the owner asked last
-- ARGV  1 number of the request  2 permits in all  3 PUBLISH or SPUBLISH
-- Reply integer: done.  {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[4]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[4], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
redis.call('pexpire', KEYS[4], 60000)
local stored = redis.call('get', KEYS[1])
if stored then
    local total = (tonumber(stored) or 0) + redis.call('zcount', KEYS[2], 0, '+inf')
    if total ~= tonumber(ARGV[2]) then
        redis.call(ARGV[3], KEYS[3], ARGV[2])
        redis.call('incrby', KEYS[1], string.format('%.0f', tonumber(ARGV[2]) - total))
    end
else
    redis.call(ARGV[3], KEYS[3], ARGV[2])
    redis.call('set', KEYS[1], ARGV[2])
end
redis.call('set', KEYS[4], ARGV[1] .. ' 1', 'px', 60000)
return 1
