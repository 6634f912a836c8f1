-- Reads what is stored of the owner in a fair lock. Everything that can be of a wrong type is read before anything is
-- written.
-- Expects  KEYS[1] lock; KEYS[3] queue; KEYS[4] timeouts; KEYS[5] alive; ARGV[1] owner
-- Defines  queue, timeouts, alive: keys; held: its holds in Redis; queued: its score
local queue, timeouts, alive = KEYS[3], KEYS[4], KEYS[5]
local held = redis.call('hget', KEYS[1], ARGV[1])
local queued = redis.call('zscore', timeouts, ARGV[1])
