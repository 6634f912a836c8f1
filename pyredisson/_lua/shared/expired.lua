-- Publishes the message of a lock that has expired without one: waiters may be sleeping until its time is over.
-- Expects  KEYS[1] lock; KEYS[3] channel; ARGV[3] repeat; mode: of the lock before, false if there was none;
--          publish: PUBLISH, SPUBLISH or ''; message
-- Defines  nothing
if not mode and ARGV[3] ~= '1' and publish ~= '' and redis.call('exists', KEYS[1]) == 0 then
    redis.pcall(publish, KEYS[3], message)
end
