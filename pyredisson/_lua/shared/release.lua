-- Reads the arguments of a release and the epoch of its owner, and finds out whether clients wait for a message. One
-- command does both as long as there is neither, which is the usual case.
-- Expects  KEYS[2] epoch of the owner; ARGV[4] lease of the remaining holds, ms; ARGV[6] PUBLISH, SPUBLISH or '';
--          ARGV[7] message; waiting: key, nil if the user may not use it
-- Defines  lease, publish, message: arguments; heard: 0; denied, reply: false; found;
--          stored: the epoch in Redis, false if there is none; listed: whether clients wait for a message
local lease, publish, message = tonumber(ARGV[4]), ARGV[6], ARGV[7]
local heard, denied, reply = 0, false, false
local found = publish ~= '' and waiting and redis.call('exists', KEYS[2], waiting) or redis.call('exists', KEYS[2])
local stored = found ~= 0 and redis.call('get', KEYS[2])
local listed = found == (stored and 2 or 1)
