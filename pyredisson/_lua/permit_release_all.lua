-- Releases several permits by their ids, all or none, and notifies the waiters. Makes all expired permits available if
-- they are released. Also undoes an acquire of several: late copies of it are stale then.
-- KEYS  1 semaphore (string)  2 last request of the owner  3 channel  4 permits taken (sorted set)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 number of the request  2 ids, sixteen bytes each, all different  3 PUBLISH or SPUBLISH
-- Reply 1: released.  1 + i: the i-th is unknown, or had expired; nothing was released.
--       {'stale', number}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
local taken, publish, waiting = KEYS[4], ARGV[3], KEYS[5]
-- include: number_guard
-- include: repeated
-- include: keep_record
-- include: now
-- include: permit_ids
local reply = 1
for i, permit in ipairs(ids) do
    if reply == 1 and (tonumber(redis.call('zscore', taken, permit)) or 0) <= now then
        reply = 1 + i
    end
end
-- include: observers
-- include: hand_out
if reply == 1 then
    -- include: purge_expired
    local available = tonumber(redis.call('get', KEYS[1]) or 0) or 0
    hand_out(waiting, publish, available + #ids, '$NOTIFIED')
    redis.call(publish, KEYS[3], #ids)  -- As Redisson does; of one permit, how many are available.
    redis.call('incrby', KEYS[1], #ids)
    redis.call('zrem', taken, unpack(ids))
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', '60000')
-- include: denied
return reply
