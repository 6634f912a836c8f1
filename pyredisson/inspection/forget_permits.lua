-- Takes the permits that a client had before it ended out of its presence entry, so that they are released once only.
-- KEYS  1 presence entry (string)
-- ARGV  1 the entry as it was read  2 the entry without them
-- Reply OK: done.  0: it has changed since, or ended.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('set', KEYS[1], ARGV[2], 'px', redis.call('pttl', KEYS[1]))
