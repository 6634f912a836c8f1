-- Takes one permit as permit_acquire does, for a client that waits for it. Makes all expired permits available.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel
--       4 permits taken: ids by the time at which they expire (sorted set)  5 wait queue (sorted set)
-- ARGV  1 number of the request  2 id, sixteen bytes  3 PUBLISH or SPUBLISH  4 lease, ms (-1: for ever)
--       5.. see shared/wait.lua
-- Reply as permit_acquire; left: the permits of which no other client was notified; wait: -1 if another client was
--       notified of its end
-- include: now
-- include: observers
-- include: hand_out
-- attempt: permit_acquire
-- include: pass_on
local taken, waiting, publish = KEYS[4], KEYS[5], ARGV[3]
redis.call('zrem', waiting, '') -- First, so that a user who may not use the queue changes nothing.
-- include: purge_expired
-- include: notified
-- include: wait
