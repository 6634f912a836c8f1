-- Renews many readers: their own holds, and the lock where it would end before them. A hold that has expired is not
-- restored. A key that is gone, has another owner or is of another type does not affect the others.
-- KEYS  1.. lock (hash) and first hold (string) of each
-- ARGV  1 lease, ms  2.. the owner of each
-- Reply array: 1 for each that its owner still holds, else 0
-- include: live_for
-- include: read_typed
local kept = {}
for at = 1, #KEYS, 2 do
    local n = (at + 1) / 2
    local holds = string.sub(KEYS[at + 1], 1, -2)
    local held = read_typed('hget', KEYS[at], ARGV[n + 1])
    kept[n] = 0
    for i = type(held) == 'string' and tonumber(held) or 0, 1, -1 do
        local left = redis.call('pttl', holds .. i)
        if left ~= -2 then
            if left < tonumber(ARGV[1]) then
                redis.call('pexpire', holds .. i, ARGV[1])
            end
            kept[n] = 1
        end
    end
    if kept[n] == 1 then
        live_for(KEYS[at], ARGV[1])
    end
end
return kept
