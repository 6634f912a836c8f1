-- Writes a string, unless a greater fencing token has been there before.
-- KEYS  1 the key to write (string)  2 the greatest token so far (string)
-- ARGV  1 token  2 value  3 TTL of the value, ms; '' for none
-- Reply nil: written.  string: refused; the greatest token so far.
local seen = redis.call('get', KEYS[2])
-- include: fence_guard
if seen ~= ARGV[1] then
    redis.call('set', KEYS[2], ARGV[1])
end
local ttl = ARGV[3] ~= '' and {'px', ARGV[3]} or {}
redis.call('set', KEYS[1], ARGV[2], unpack(ttl))
return nil
