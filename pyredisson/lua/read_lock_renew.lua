-- Renews many readers at once: their own holds, and the life of the lock where it is shorter. A hold that has ended stays
-- ended. A key that is gone, taken over or of another type hurts none of the others.
-- KEYS  1.. lock (hash) and first hold (string) of each
-- ARGV  1 lease, ms  2.. the owner of each
-- Reply array: 1 for each that its owner still holds, else 0
local lease = tonumber(ARGV[1])
local kept = {}
for at = 1, #KEYS, 2 do
    local n = (at + 1) / 2
    local lock = KEYS[at]
    local holds = string.sub(KEYS[at + 1], 1, -2)
    local held = redis.pcall('hget', lock, ARGV[n + 1])
    kept[n] = 0
    for i = type(held) == 'string' and tonumber(held) or 0, 1, -1 do
        local left = redis.call('pttl', holds .. i)
        if left ~= -2 then
            if left < lease then
                redis.call('pexpire', holds .. i, ARGV[1])
            end
            kept[n] = 1
        end
    end
    if kept[n] == 1 and redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, ARGV[1])
    end
end
return kept
