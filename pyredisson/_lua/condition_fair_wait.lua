-- Releases all holds of a fair lock as fair_release does, and joins those who wait for its condition.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 queue (list)  4 timeouts (sorted set)  5 alive (hash; ours alone)
--       6 channel; that of each waiter is this, ':' and its owner  7 waiters of the condition (sorted set)
-- ARGV  1 owner  2 epoch  3 repeat  4 lease, ms  5 holds the client counts: '0', which means all of them
--       6 PUBLISH or SPUBLISH  7 message  8 '0': the owner is not in the queue  9 member; '' if its wait has ended
-- Reply as fair_release
local waiters, member = KEYS[7], ARGV[9]
-- attempt: fair_release
-- include: join_condition
return reply
