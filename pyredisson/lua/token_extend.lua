-- Lets a hold end no sooner than at a given moment. Sent twice, or late, it does the same as once.
-- KEYS  1 lock (string)
-- ARGV  1 token of the hold  2 that moment, by the server's clock in ms; '0' leaves it as it is
-- Reply {now, end}: both by the server's clock in ms; end is -1 if there is none.  nil: it is not this hold's.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
local time = redis.call('time')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local left = redis.call('pttl', KEYS[1])
local till = tonumber(ARGV[2])
if till > now and till > now + left then
    redis.call('pexpire', KEYS[1], till - now)
    left = till - now
end
if left < 0 then
    return {now, -1}
end
return {now, now + left}
