-- Removes the first waiter from the queue of a fair lock.
-- Expects  queue, timeouts, alive: keys; head: the first waiter
-- Defines  nothing
redis.call('zrem', timeouts, head)
redis.call('hdel', alive, head)
redis.call('lpop', queue)
head = redis.call('lindex', queue, 0)
