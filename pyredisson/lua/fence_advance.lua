-- Notes a fencing token, unless a greater one has been there before.
-- KEYS  1 the greatest token seen (string)
-- ARGV  1 token
-- Reply nil: noted.  string: refused; the greatest token seen.
local seen = redis.call('get', KEYS[1])
-- Compared as text: a number in Lua is exact only up to 2^53.
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then
    return seen
end
if seen ~= ARGV[1] then
    redis.call('set', KEYS[1], ARGV[1])
end
return nil
