-- Gives back one hold of a fair lock, or a place in its queue. Whenever the lock is free then, the head of the queue
-- is told.
-- KEYS  1 lock (hash)  2 channel; each waiter's own is this, ':' and its owner  3 epoch of the owner
--       4 queue (list)  5 timeouts (sorted set)  6 alive (hash; ours alone)
-- ARGV  1 message  2 lease of the holds that remain, ms  3 owner
--       4 holds the client counts ('0': it lost them, give up whatever stands here)
--       5 epoch  6 '1' if an earlier copy of this request may have run  7 PUBLISH or SPUBLISH
--       8 the wait (ms) with which the owner queued up, if it may stand in the queue; else '0'
-- Reply 1 + n: free, and n connections heard of it.  0: still held.  nil: the owner does not hold what the client counts.
--       {'stale', epoch}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE, ZREM, LPOP); it lets the rest run.
local stored = redis.call('get', KEYS[3])
if stored and tonumber(stored) > tonumber(ARGV[5]) then
    return {'stale', stored}
end
-- All that can be of a wrong type is read before anything is written.
local held = redis.call('hget', KEYS[1], ARGV[3])
local queued = redis.call('zscore', KEYS[5], ARGV[3])
if redis.call('lindex', KEYS[4], 0) or ARGV[8] ~= '0' then
    redis.call('hget', KEYS[6], ARGV[3])
end
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local left = -1
if held and (held == ARGV[4] or ARGV[4] == '0') then
    left = math.max(tonumber(ARGV[4]) - 1, 0)
elseif held and ARGV[6] == '1' and tonumber(held) == tonumber(ARGV[4]) - 1 then
    left = tonumber(held)
end
local reply = false
if left > 0 then
    redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[2])))
    redis.call('hincrby', KEYS[1], ARGV[3], left - tonumber(held))
    reply = 0
end
if ARGV[8] ~= '0' then
    -- What its wait had added to the time of those behind it is taken off again.
    local waiters = redis.call('lrange', KEYS[4], 0, -1)
    local at = #waiters
    for i, waiter in ipairs(waiters) do
        if waiter == ARGV[3] then
            at = i
            break
        end
    end
    redis.call('hdel', KEYS[6], ARGV[3])
    if queued then
        redis.call('zrem', KEYS[5], ARGV[3])
    end
    redis.call('lrem', KEYS[4], 0, ARGV[3])
    for i = at + 1, #waiters do
        if waiters[i] ~= ARGV[3] and redis.call('zscore', KEYS[5], waiters[i]) then
            redis.call('zincrby', KEYS[5], -tonumber(ARGV[8]), waiters[i])
        end
    end
end
-- A waiter of ours says itself until when it can be alive; its score has room for the waits of others, too.
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', KEYS[5], waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', KEYS[6], waiter) or score))
end
-- Whoever is not heard of in time is gone, and so is an entry without a score.
local head = redis.call('lindex', KEYS[4], 0)
while head and believed_until(head) <= now do
    redis.call('zrem', KEYS[5], head)
    redis.call('hdel', KEYS[6], head)
    redis.call('lpop', KEYS[4])
    head = redis.call('lindex', KEYS[4], 0)
end
if left == 0 then
    -- The message leaves when the script is over. It goes first: a user who may not publish shall free nothing.
    reply = 1
    if head then
        reply = 1 + redis.call(ARGV[7], KEYS[2] .. ':' .. head, ARGV[1])
    end
    redis.call('del', KEYS[1])
elseif left < 0 and head and redis.call('exists', KEYS[1]) == 0 then
    redis.pcall(ARGV[7], KEYS[2] .. ':' .. head, ARGV[1])
end
if ARGV[5] ~= '0' and stored ~= ARGV[5] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[3], 60000)
    redis.call('set', KEYS[3], ARGV[5], 'px', math.max(60000, tonumber(ARGV[2])))
end
return reply
