-- Reads what is stored of the owner in a fair lock. Everything that can be of a wrong type is read before anything is
-- written.
-- Expects  KEYS[1] lock; KEYS[2] epoch; KEYS[3] queue; KEYS[4] timeouts; KEYS[5] alive; ARGV[1] owner
-- Defines  queue, timeouts, alive: keys; held: its holds in Redis; more: whether there is more than the lock, which is
--          unusual; stored: the epoch in Redis, false if there is none; queued: its score
local queue, timeouts, alive = KEYS[3], KEYS[4], KEYS[5]
local held = redis.call('hget', KEYS[1], ARGV[1])
local more = redis.call('exists', KEYS[2], queue, timeouts) > 0
local stored = more and redis.call('get', KEYS[2])
local queued = more and redis.call('zscore', timeouts, ARGV[1])
