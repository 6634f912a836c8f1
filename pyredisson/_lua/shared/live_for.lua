-- Lets a key live for a time at least. It never shortens a time to live; a key without one (PERSIST) gets one again.
-- Expects  nothing
-- Defines  live_for(key, ms): 1, or 0 if there is no such key
local function live_for(key, ms)
    if redis.call('pttl', key) < tonumber(ms) then
        return redis.call('pexpire', key, ms)
    end
    return 1
end
