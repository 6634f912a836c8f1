-- Takes a client that waits no longer off the list. If the lock is free, the next one is notified: the client may have
-- been notified, and have left since.
-- KEYS  1 lock (hash)  2 clients that wait (sorted set)
-- ARGV  1 the client, as it stands there  2 PUBLISH or SPUBLISH
-- Reply 1: done
-- include: ears
-- include: choose
-- include: leave
if redis.call('exists', KEYS[1]) == 0 and choose(KEYS[2], ARGV[2]) then
    redis.call(ARGV[2], KEYS[2], '4')
end
return 1
