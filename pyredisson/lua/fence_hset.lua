-- Writes fields of a hash, unless a greater fencing token has been there before. The token is a field itself.
-- KEYS  1 what is written (hash)
-- ARGV  1 token  2 the field of the token  3.. a field and its value, and so on
-- Reply nil: written.  string: refused; the greatest token seen.
local seen = redis.call('hget', KEYS[1], ARGV[2])
-- Compared as text: a number in Lua is exact only up to 2^53.
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then
    return seen
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[1])
for i = 3, #ARGV, 2 do
    redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1])
end
return nil
