-- Takes the owner out of the queue of a fair lock.
-- Expects  ARGV[1] owner; queue, timeouts, alive: keys
-- Defines  nothing
redis.call('hdel', alive, ARGV[1])
redis.call('zrem', timeouts, ARGV[1])
redis.call('lrem', queue, 0, ARGV[1])
