-- Takes a client off the list of those who wait. If it was an ear, another one is in its place.
-- Expects  KEYS[2] clients that wait; ARGV[1] the client, as it stands there; ARGV[2] PUBLISH or SPUBLISH;
--          keep_ears(waiting, publish, trusted, left)
-- Defines  nothing
redis.call('zrem', KEYS[2], ARGV[1])
if redis.call('zrem', KEYS[2], 'ear:' .. string.match(ARGV[1], '^[^:]+')) == 1 then
    keep_ears(KEYS[2], ARGV[2], 1000, true)
end
