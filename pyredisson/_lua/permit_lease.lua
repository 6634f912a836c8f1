-- Changes the time at which a permit expires. Makes all expired permits available.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 id, sixteen bytes  3 PUBLISH or SPUBLISH  4 lease from now on, ms (-1: for ever)
-- Reply 1: done.  0: unknown, or it had expired.  {'stale', number}: a newer request has overtaken it.
-- include: number_guard
-- include: repeated
-- include: keep_record
local taken, publish, waiting = KEYS[4], ARGV[3], KEYS[5]
-- include: now
-- include: observers
-- include: hand_out
-- include: permit_end
-- include: purge_expired
local reply = 0
if redis.call('zscore', taken, ARGV[2]) then
    redis.call('zadd', taken, score, ARGV[2])
    reply = 1
end
-- include: record
