-- Stores the epoch of an acquire, before anything is acquired. Late copies of older requests are refused from here on.
-- Expects  KEYS[2] epoch of the owner; ARGV[2] epoch of the request; ARGV[4] lease, ms; stored: the epoch in Redis
-- Defines  nothing
if ARGV[2] ~= '0' and stored ~= ARGV[2] then
    redis.call('set', KEYS[2], ARGV[2], 'px', math.max(60000, tonumber(ARGV[4])))
end
