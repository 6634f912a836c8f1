-- Acquires a fair lock if it is its owner's turn, or one more hold for an owner who holds it; else the owner joins the
-- queue, or keeps its place.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 queue (list)  4 timeouts (sorted set)  5 alive (hash; ours alone)
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
--       6 the owner's wait, ms  7 minimum queue credit of any waiter, ms  8 '1': join the queue if need be
--       9 heartbeat timeout of the owner, ms
-- Reply nil: acquired.  integer: not acquired; look again in this many ms (-1: only when notified).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- include: fair_owner
-- include: epoch_guard
local free = not held and redis.call('exists', KEYS[1]) == 0
-- include: now
-- include: fair_queue
local head = more and drop_dead({[ARGV[1]] = true}) -- The one who asks is alive.
local turn = free and ARGV[5] == '0' and (not head or head == ARGV[1])
if turn and head then
    redis.call('hdel', alive, ARGV[1])
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, ARGV[1])
    for _, waiter in ipairs(redis.call('zrange', timeouts, 0, -1)) do
        redis.call('zincrby', timeouts, -tonumber(ARGV[6]), waiter)
    end
elseif turn and more then
    redis.call('del', timeouts)
end
-- include: epoch_raise
if turn then
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    -- include: first_lease
    return nil
end
-- include: live_for
if held then
    if queued then
        -- include: leave_fair_queue
    end
    -- include: reenter
    return nil
end
-- include: no_hold
local left = redis.call('pttl', KEYS[1])
-- If the lock is free, it is another waiter's turn, until it acquires the lock or its time is over.
local again = free and math.max(0, math.ceil(believed_until(head) - now)) or left
if ARGV[8] == '1' then
    local wait = tonumber(ARGV[6])
    local lives = tonumber(ARGV[9])
    -- A newcomer inherits nothing: an earlier wait of its owner may have been shorter or longer.
    if not queued or tonumber(redis.call('hget', alive, ARGV[1]) or '0') < now + lives then
        redis.call('hset', alive, ARGV[1], now + lives)
    end
    if head == ARGV[1] then
        -- Its time is counted from each heartbeat, and never shortened.
        local believed = now + math.max(0, left) + math.max(wait, tonumber(ARGV[7]))
        if tonumber(queued or '0') < believed then
            redis.call('zadd', timeouts, believed, ARGV[1])
        end
    elseif not queued then
        local before = left
        local last = redis.call('lindex', queue, -1)
        if last and last ~= ARGV[1] then
            -- Usually the longest score is that of the last one. If that one is gone, those before it still subtract
            -- their waits from ours.
            local longest = redis.call('zrange', timeouts, -1, -1, 'withscores')
            before = tonumber(longest[2] or now) - now
            -- If the one right before it is dead, this waiter alone looks when that one's time is over. Those of one
            -- client live and die together.
            local client = string.match(ARGV[1], '.*:') or ARGV[1]
            local over = believed_until(last)
            if over > now and string.sub(last, 1, #client) ~= client and (again < 0 or over - now < again) then
                again = math.ceil(over - now)
            end
        end
        redis.call('zadd', timeouts, now + math.max(0, before) + wait, ARGV[1])
        redis.call('lrem', queue, 0, ARGV[1])
        redis.call('rpush', queue, ARGV[1])
    end
    -- The heartbeat has to be stored as long as the score: without it, the score would be believed.
    local lasts = math.ceil(tonumber(redis.call('zscore', timeouts, ARGV[1])) - now)
    live_for(alive, lasts)
end
return again
