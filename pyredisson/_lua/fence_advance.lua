-- Stores a fencing token, unless a greater one has been there before.
-- KEYS  1 the greatest token so far (string)
-- ARGV  1 token
-- Reply nil: stored.  string: refused; the greatest token so far.
local seen = redis.call('get', KEYS[1])
-- include: fence_guard
if seen ~= ARGV[1] then
    redis.call('set', KEYS[1], ARGV[1])
end
return nil
