-- Notifies the clients that can acquire the lock, since the one that left the queue may have been notified.
-- Expects  KEYS[2] wait queue; ARGV[2] PUBLISH or SPUBLISH; choose(waiting, publish): whether any was notified;
--          free: whether any can acquire it
-- Defines  nothing
if free and choose(KEYS[2], ARGV[2]) then
    redis.call(ARGV[2], KEYS[2], '$NOTIFIED_ALONE')
end
return 1
