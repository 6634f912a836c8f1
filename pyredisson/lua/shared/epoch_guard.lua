-- Refuses a request that a newer one of its owner has overtaken.
-- Expects  KEYS[2] epoch of the owner; ARGV[2] epoch of the request
-- Defines  stored: the epoch in Redis, false if there is none
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[2]) then
    return {'stale', stored}
end
