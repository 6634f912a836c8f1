-- Renews many locks at once. A key that is gone, taken over or of another type hurts none of the others.
-- KEYS  1.. locks (hashes)
-- ARGV  1 lease, ms  2.. the owner of each
-- Reply array: 1 for each that its owner still holds, else 0
local lease = tonumber(ARGV[1])
local kept = {}
for i, key in ipairs(KEYS) do
    kept[i] = 0
    if redis.pcall('hexists', key, ARGV[i + 1]) == 1 then
        if redis.call('pttl', key) < lease then
            redis.call('pexpire', key, ARGV[1])
        end
        kept[i] = 1
    end
end
return kept
