-- Lets a hold end at a given moment or later. A copy that comes twice, or late, changes nothing more.
-- KEYS  1 lock (string)
-- ARGV  1 token of the hold  2 that moment, by the server's clock in ms; '0' leaves it as it is
-- Reply {now, end}: both by the server's clock in ms; end is -1 if there is none.  nil: another token or none is
--       stored.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
-- include: now
local left = redis.call('pttl', KEYS[1])
local till = tonumber(ARGV[2])
if till > now and till > now + left then
    left = till - now
    redis.call('pexpire', KEYS[1], left)
end
return {now, left < 0 and -1 or now + left}
