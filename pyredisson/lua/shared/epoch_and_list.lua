-- Reads the epoch of the owner, and finds out whether clients wait. One command does both as long as there is neither,
-- which is the usual case.
-- Expects  KEYS[2] epoch of the owner; waiting: key, nil if the user may not use it
-- Defines  found; stored: the epoch in Redis, false if there is none; listed: whether clients wait
local found = waiting and redis.call('exists', KEYS[2], waiting) or redis.call('exists', KEYS[2])
local stored = found ~= 0 and redis.call('get', KEYS[2])
local listed = found == (stored and 2 or 1)
