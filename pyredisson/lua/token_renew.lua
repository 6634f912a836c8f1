-- Renews many locks at once, each a string: the token of its hold. One that is gone, taken over or of another type
-- hurts none of the others.
-- KEYS  1.. locks (strings)
-- ARGV  1 lease, ms  2.. the token of each
-- Reply array: 1 for each that is still held with this token, else 0
local lease = tonumber(ARGV[1])
local kept = {}
for i, key in ipairs(KEYS) do
    kept[i] = 0
    if redis.pcall('get', key) == ARGV[i + 1] then
        if redis.call('pttl', key) < lease then
            redis.call('pexpire', key, ARGV[1])
        end
        kept[i] = 1
    end
end
return kept
