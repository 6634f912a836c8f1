-- Reads the epoch of the owner, and finds out whether clients wait. One command does both as long as there is neither,
-- which is the usual case. A user who may not use the list releases as if it were empty.
-- Expects  KEYS[2] epoch of the owner; ARGV[8] clients that wait
-- Defines  found; stored: the epoch in Redis, false if there is none; listed: whether clients wait; denied: 1 if the
--          user may not use the key of the list, else false
local found = redis.pcall('exists', KEYS[2], ARGV[8])
local stored = found ~= 0 and redis.call('get', KEYS[2])
local listed = found == (stored and 2 or 1)
local denied = type(found) == 'table' and 1
