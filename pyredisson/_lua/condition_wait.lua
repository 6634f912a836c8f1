-- Releases all holds of a lock as lock_release does, and joins those who wait for its condition.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 channel
--       4 wait queue (sorted set); missing if the user may not use it
--       the last: waiters of the condition (sorted set)
-- ARGV  1 owner  2 epoch  3 repeat  4 lease, ms  5 holds the client counts: '0', which means all of them
--       6 PUBLISH, SPUBLISH or '' (do not publish)  7 message  8 member; '' if its wait has ended
-- Reply as lock_release
local waiters, member = table.remove(KEYS), ARGV[8]
-- attempt: lock_release
-- include: join_condition
return reply
