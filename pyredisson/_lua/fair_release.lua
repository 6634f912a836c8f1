-- Releases one hold of a fair lock, or leaves its queue. If the lock is free then, the head of the queue is notified.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 queue (list)  4 timeouts (sorted set)  5 alive (hash; ours alone)
--       6 channel; that of each waiter is this, ':' and its owner
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease of the remaining holds, ms
--       5 holds the client counts ('0': they are lost, remove what is stored)
--       6 PUBLISH or SPUBLISH  7 message
--       8 the wait (ms) with which the owner joined the queue, if it may be there; else '0'
-- Reply 1 + n: free, and n connections were notified.  0: still held.  nil: the owner does not hold what the client
--       counts.  {'stale', epoch}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE, ZREM, LPOP); then it accepts
-- the rest.
-- include: fair_owner
-- include: epoch_guard
local lease = tonumber(ARGV[4])
if more and redis.call('lindex', queue, 0) or ARGV[8] ~= '0' then
    redis.call('hget', alive, ARGV[1])
end
-- include: now
-- include: holds_left
local reply = false
if left > 0 then
    -- include: release_one
end
if ARGV[8] ~= '0' then
    -- What its wait had added to the time of those behind it is subtracted again.
    local waiters = redis.call('lrange', queue, 0, -1)
    -- include: leave_fair_queue
    local behind = false
    for _, waiter in ipairs(waiters) do
        if waiter == ARGV[1] then
            behind = true
        elseif behind and redis.call('zscore', timeouts, waiter) then
            redis.call('zincrby', timeouts, -tonumber(ARGV[8]), waiter)
        end
    end
end
-- include: fair_queue
local head = more and drop_dead({})
if left == 0 then
    -- Redis sends the message when the script ends. It comes first: a user who may not publish must free nothing.
    reply = 1 + (head and redis.call(ARGV[6], KEYS[6] .. ':' .. head, ARGV[7]) or 0)
    redis.call('del', KEYS[1])
elseif left < 0 and head and redis.call('exists', KEYS[1]) == 0 then
    redis.pcall(ARGV[6], KEYS[6] .. ':' .. head, ARGV[7])
end
-- include: epoch_store
return reply
