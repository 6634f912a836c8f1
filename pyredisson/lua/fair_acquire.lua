-- Takes a fair lock if it is its owner's turn, or takes it once more; else the owner queues up, or stays where it is.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 queue (list)  4 timeouts (sorted set)  5 alive (hash; ours alone)
-- ARGV  1 lease, ms  2 owner  3 holds the client counts  4 epoch  5 '1' if an earlier copy of this request may have run
--       6 the owner's wait, ms  7 the least that a waiter is believed in for, ms  8 '1': queue up if need be
--       9 for how long the owner may be taken to be alive, should it not be heard of any more, ms
-- Reply nil: taken.  integer: not taken, and worth another look after so many ms (-1: only when told).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
-- All that can be of a wrong type is read before anything is written.
local held = redis.call('hget', KEYS[1], ARGV[2])
local free = redis.call('exists', KEYS[1]) == 0
local queued = redis.call('zscore', KEYS[4], ARGV[2])
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local head = redis.call('lindex', KEYS[3], 0)
-- A score has room for the waits of others, and a waiter of ours may be dead long before: it says itself until when it
-- can be alive. Redisson's do not.
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', KEYS[4], waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', KEYS[5], waiter) or score))
end
local ends = 0
-- Whoever is not heard of in time is gone, and so is an entry without a score. The one who asks is here.
while head and head ~= ARGV[2] do
    ends = believed_until(head)
    if ends > now then
        break
    end
    redis.call('zrem', KEYS[4], head)
    redis.call('hdel', KEYS[5], head)
    redis.call('lpop', KEYS[3])
    head = redis.call('lindex', KEYS[3], 0)
end
local taken = false
if free and ARGV[3] == '0' and (not head or head == ARGV[2]) then
    if head then
        redis.call('hdel', KEYS[5], ARGV[2])
        redis.call('lpop', KEYS[3])
        redis.call('zrem', KEYS[4], ARGV[2])
        for _, waiter in ipairs(redis.call('zrange', KEYS[4], 0, -1)) do
            redis.call('zincrby', KEYS[4], -tonumber(ARGV[6]), waiter)
        end
    elseif redis.call('exists', KEYS[4]) == 1 then
        redis.call('del', KEYS[4])
    end
    taken = true
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
if taken then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    local ends = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if ends ~= 1 then
        -- This user may not do that. Nobody is left with a lock that never ends.
        redis.call('del', KEYS[1])
        return ends
    end
    return nil
end
if held then
    if queued then
        redis.call('hdel', KEYS[5], ARGV[2])
        redis.call('zrem', KEYS[4], ARGV[2])
        redis.call('lrem', KEYS[3], 0, ARGV[2])
    end
    local wanted = tonumber(ARGV[3]) + 1
    if held == ARGV[3] then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
    elseif wanted == 1 then
        -- The client counts no hold: what stands here is over for it, and the first hold starts at 1.
        redis.call('hset', KEYS[1], ARGV[2], 1)
    elseif not (ARGV[5] == '1' and tonumber(held) == wanted) then
        return {'lost'}
    end
    -- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
        redis.call('pexpire', KEYS[1], ARGV[1])
    end
    return nil
end
if ARGV[3] ~= '0' then
    return {'lost'}
end
local left = redis.call('pttl', KEYS[1])
local again = left
if free then
    -- It is another's turn, until it takes the lock, or its time is over.
    again = math.max(0, math.ceil(ends - now))
end
if ARGV[8] == '1' then
    local wait = tonumber(ARGV[6])
    local alive = tonumber(ARGV[9])
    -- A newcomer inherits nothing: an earlier wait of its owner may have been a shorter one, or a longer.
    if not queued or tonumber(redis.call('hget', KEYS[5], ARGV[2]) or '0') < now + alive then
        redis.call('hset', KEYS[5], ARGV[2], now + alive)
    end
    if head == ARGV[2] then
        -- Its time is counted from each sign of life, and never shortened.
        local believed = now + math.max(0, left) + math.max(wait, tonumber(ARGV[7]))
        if tonumber(queued or '0') < believed then
            redis.call('zadd', KEYS[4], believed, ARGV[2])
        end
    elseif not queued then
        local before = left
        local last = redis.call('lindex', KEYS[3], -1)
        if last and last ~= ARGV[2] then
            -- As a rule that of the last one. If that one is gone, those before it still take their waits off ours.
            local longest = redis.call('zrange', KEYS[4], -1, -1, 'withscores')
            before = tonumber(longest[2] or now) - now
            -- Should the one right before it be dead, nobody else looks when that one's time is over. Those of one
            -- client live and die together.
            local client = string.match(ARGV[2], '.*:') or ARGV[2]
            local over = believed_until(last)
            if over > now and string.sub(last, 1, #client) ~= client and (again < 0 or over - now < again) then
                again = math.ceil(over - now)
            end
        end
        redis.call('zadd', KEYS[4], now + math.max(0, before) + wait, ARGV[2])
        redis.call('lrem', KEYS[3], 0, ARGV[2])
        redis.call('rpush', KEYS[3], ARGV[2])
    end
    -- That has to be there as long as the score is: without it, the score would be believed.
    local lasts = math.ceil(tonumber(redis.call('zscore', KEYS[4], ARGV[2])) - now)
    if redis.call('pttl', KEYS[5]) < lasts then
        redis.call('pexpire', KEYS[5], lasts)
    end
end
return again
