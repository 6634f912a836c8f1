-- Reads the epoch of the owner.
-- Expects  KEYS[2] epoch of the owner
-- Defines  stored: the epoch in Redis, false if there is none
local stored = redis.call('get', KEYS[2])
