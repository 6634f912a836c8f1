-- Gives one permit back by its id, and wakes those who wait. Also undoes an acquire: late copies of it are stale then.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel  4 what the owner asked last
-- ARGV  1 number of the request  2 id, sixteen bytes  3 PUBLISH or SPUBLISH
-- Reply 1: given back.  0: unknown, or it had expired (and is available again in any case).
--       {'stale', number}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (PEXPIRE); it then lets the rest run.
local number, outcome = string.match(redis.call('get', KEYS[4]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[4], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
redis.call('pexpire', KEYS[4], 60000)
local ends = redis.call('zscore', KEYS[2], ARGV[2])
local released = 0
if ends then
    local time = redis.call('time')
    if tonumber(ends) > tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) then
        released = 1
    end
    -- The message leaves when the script is over. It goes first: a user who may not publish shall change nothing.
    local total = (tonumber(redis.call('get', KEYS[1]) or 0) or 0) + 1
    redis.call(ARGV[3], KEYS[3], string.format('%.0f', total))
    redis.call('incrby', KEYS[1], 1)
    redis.call('zrem', KEYS[2], ARGV[2])
end
redis.call('set', KEYS[4], ARGV[1] .. ' ' .. released, 'px', 60000)
return released
