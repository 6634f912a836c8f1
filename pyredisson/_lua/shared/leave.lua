-- Takes a client out of the wait queue, and the record that it was notified of permits. If it was an observer, another
-- one is in its place.
-- Expects  KEYS[2] wait queue; ARGV[1] the client, as it stands there; ARGV[2] PUBLISH or SPUBLISH;
--          keep_observers(waiting, publish, trusted)
-- Defines  nothing
redis.call('zrem', KEYS[2], ARGV[1], '$PROMISE' .. ARGV[1])
if redis.call('zrem', KEYS[2], '$OBSERVER' .. string.match(ARGV[1], '^[^:]+')) == 1 then
    keep_observers(KEYS[2], ARGV[2], 1000)
end
