-- Reads the arguments of a forced unlock, and finds out whether clients wait for a message.
-- Expects  KEYS[4] wait queue; ARGV[4] PUBLISH, SPUBLISH or ''; ARGV[5] message
-- Defines  publish, message, waiting: arguments; heard: 0; denied: false; listed: whether clients wait for a message
local publish, message, waiting = ARGV[4], ARGV[5], KEYS[4]
local heard, denied = 0, false
local listed = publish ~= '' and waiting and redis.call('exists', waiting) == 1
