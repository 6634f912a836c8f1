-- Frees a fair lock for all its owners, and notifies the head of the queue. Waiters keep their places.
-- KEYS  1 lock (hash)  2 epoch of the caller  3 queue (list)  4 timeouts (sorted set)  5 alive (hash; ours alone)
--       6 channel; that of each waiter is this, ':' and its owner
-- ARGV  1 caller (not used)  2 epoch  3 repeat (not used)
--       4 PUBLISH or SPUBLISH  5 message
-- Reply array: the owners who held it.  nil: it was free.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_of_caller
-- include: epoch_guard
local queue, timeouts, alive = KEYS[3], KEYS[4], KEYS[5]
local owners = redis.call('hkeys', KEYS[1])
-- include: now
-- include: fair_queue
local head = drop_dead({})
if #owners > 0 then
    if head then
        redis.call(ARGV[4], KEYS[6] .. ':' .. head, ARGV[5])
    end
    redis.call('del', KEYS[1])
end
-- include: epoch_store
return #owners > 0 and owners
