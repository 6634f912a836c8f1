-- Lets a key live for a time at least. It never shortens a time to live; a key without one (PERSIST) gets one again.
-- Expects  nothing
-- Defines  live_for(key, ms)
local function live_for(key, ms)
    if redis.call('pttl', key) < tonumber(ms) then
        redis.call('pexpire', key, ms)
    end
end
