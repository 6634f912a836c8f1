-- Writes a string, unless a greater fencing token has been there before.
-- KEYS  1 what is written (string)  2 the greatest token seen (string)
-- ARGV  1 token  2 value  3 TTL of the value, ms; '' for none
-- Reply nil: written.  string: refused; the greatest token seen.
local seen = redis.call('get', KEYS[2])
-- Compared as text: a number in Lua is exact only up to 2^53.
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then
    return seen
end
if seen ~= ARGV[1] then
    redis.call('set', KEYS[2], ARGV[1])
end
if ARGV[3] == '' then
    redis.call('set', KEYS[1], ARGV[2])
else
    redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
end
return nil
