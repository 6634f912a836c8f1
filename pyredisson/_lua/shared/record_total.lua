-- Records how many permits of a semaphore there are in all, for as long as the semaphore exists.
-- Expects  KEYS[1] semaphore; KEYS[4] permits in all; in_all: their number
-- Defines  ttl
redis.call('set', KEYS[4], in_all)
local ttl = redis.call('pttl', KEYS[1])
if ttl > 0 then
    redis.call('pexpire', KEYS[4], ttl)
end
