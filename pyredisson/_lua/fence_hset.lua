-- Writes fields of a hash, unless a greater fencing token has been there before. The token is a field itself.
-- KEYS  1 the key to write (hash)
-- ARGV  1 token  2 the field of the token  3.. a field and its value, and so on
-- Reply nil: written.  string: refused; the greatest token so far.
local seen = redis.call('hget', KEYS[1], ARGV[2])
-- include: fence_guard
redis.call('hset', KEYS[1], ARGV[2], ARGV[1])
for i = 3, #ARGV, 2 do
    redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1])
end
return nil
