-- Ends a run. Until the time for which a run keeps its name has ended, the lock stays, held by no one: its field is the
-- owner's with ':ran' behind it.
-- KEYS  1 lock (hash)  2 epoch of the owner
-- ARGV  1 owner  2 epoch  3 repeat (not used)  4 lease, ms
--       5 how long a run keeps its name from its start, ms  6 who runs it, for those who skip
--       7 for how long it has run at least, ms: its lease tells no more if it was extended
-- Reply 1: ended.  nil: the owner does not hold it.  {'stale', epoch}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); then it accepts the rest.
local reply, lease = false, tonumber(ARGV[4])
local stored = redis.call('get', KEYS[2])
-- include: epoch_guard
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    local left = ARGV[5] - math.max(lease - redis.call('pttl', KEYS[1]), ARGV[7])
    if left > 0 then
        redis.call('pexpire', KEYS[1], left)
        redis.call('hset', KEYS[1], ARGV[1] .. ':ran', ARGV[6])
        redis.call('hdel', KEYS[1], ARGV[1])
    else
        redis.call('del', KEYS[1])
    end
    reply = 1
end
-- include: epoch_store
return reply
