-- Adds a hold of an owner who holds the lock.
-- Expects  KEYS[1] lock; ARGV[1] owner; ARGV[3] repeat; ARGV[4] lease, ms; ARGV[5] holds the client counts;
--          held: the holds in Redis; live_for
-- Defines  wanted: the holds after this one
local wanted = tonumber(ARGV[5]) + 1
if held == ARGV[5] then
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
elseif wanted == 1 then
    -- The client counts no hold, so those in Redis are left over: the count starts again at 1.
    redis.call('hset', KEYS[1], ARGV[1], 1)
elseif not (ARGV[3] == '1' and tonumber(held) == wanted) then
    return {'lost'}
end
live_for(KEYS[1], ARGV[4])
