-- Takes one of several holds from the owner, who keeps the others for a lease at least.
-- Expects  KEYS[1] lock; ARGV[1] owner; held: the holds in Redis; left (holds_left); lease: ms; reply
-- Defines  nothing
redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), lease))
redis.call('hincrby', KEYS[1], ARGV[1], left - tonumber(held))
reply = 0
