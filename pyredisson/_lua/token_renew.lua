-- Renews many locks, each a string: the token of its hold. One that is gone, has another token or is of another type
-- does not affect the others.
-- KEYS  1.. locks (strings)
-- ARGV  1 lease, ms  2.. the token of each
-- Reply array: 1 for each that still has this token, else 0
-- include: live_for
-- include: read_typed
local function renew(i, key)
    return read_typed('get', key) == ARGV[i + 1] and live_for(key, ARGV[1]) or 0
end
-- include: renew_all
