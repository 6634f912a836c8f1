-- Renews many locks. A key that is gone, has another owner or is of another type does not affect the others.
-- KEYS  1.. locks (hashes)
-- ARGV  1 lease, ms  2.. the owner of each
-- Reply array: 1 for each that its owner still holds, else 0
-- include: live_for
-- include: read_typed
local function renew(i, key)
    return read_typed('hexists', key, ARGV[i + 1]) == 1 and live_for(key, ARGV[1]) or 0
end
-- include: renew_all
