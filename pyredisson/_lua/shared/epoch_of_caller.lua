-- Reads the epoch of a caller who forces an unlock: it holds nothing, so it has no lease.
-- Expects  KEYS[2] epoch of the caller
-- Defines  stored: the epoch in Redis, false if there is none; lease: ms
local stored = redis.call('get', KEYS[2])
local lease = 0
