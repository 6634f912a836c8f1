-- Takes the permits that a client had before it ended out of its presence entry, so that they are released once only.
-- KEYS  1 presence entry (string)
-- ARGV  1 the entry as it was read  2 the entry without it
-- Reply 1: done.  0: it has changed since.
local left = redis.call('pttl', KEYS[1])
if left <= 0 or redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('set', KEYS[1], ARGV[2], 'px', left)
return 1
