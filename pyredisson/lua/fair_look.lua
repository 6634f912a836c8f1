-- Looks after waiters of a fair lock who are alive: each is believed in for longer, and those who are gone are dropped.
-- KEYS  1 lock (hash)  2 queue (list)  3 timeouts (sorted set)  4 alive (hash; ours alone)
-- ARGV  1 the least that a waiter is believed in for, ms
--       2.. of each: owner; its wait, ms; for how long it may be taken to be alive, should it not be heard of any more, ms
-- Reply {ms, head, owner...}: worth another look after so many ms (-1: only when told); whose turn it is if the lock is
--       free, else ''; then those of the given who do not stand in the queue.
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local left = redis.call('pttl', KEYS[1])
local waits, alive = {}, {}
for i = 2, #ARGV, 3 do
    waits[ARGV[i]] = math.max(tonumber(ARGV[i + 1]), tonumber(ARGV[1]))
    alive[ARGV[i]] = tonumber(ARGV[i + 2])
end
-- A waiter of ours says itself until when it can be alive; its score has room for the waits of others, too.
local function believed_until(waiter)
    local score = tonumber(redis.call('zscore', KEYS[3], waiter) or '0')
    return math.min(score, tonumber(redis.call('hget', KEYS[4], waiter) or score))
end
local waiters = redis.call('lrange', KEYS[2], 0, -1)
local first = 1
-- An entry without a score is of nobody, whoever it names: it asks for its place anew.
while waiters[first] do
    local ends = believed_until(waiters[first])
    if ends > now or (ends > 0 and waits[waiters[first]]) then
        break
    end
    redis.call('zrem', KEYS[3], waiters[first])
    redis.call('hdel', KEYS[4], waiters[first])
    redis.call('lpop', KEYS[2])
    first = first + 1
end
local client = string.match(ARGV[2] or '', '.*:') or ''
local function of_this_client(waiter)
    return string.sub(waiter, 1, #client) == client
end
local again = left >= 0 and left or math.huge
local lasts = 0
local seen = {}
for i = first, #waiters do
    local wait = waits[waiters[i]]
    if wait and not seen[waiters[i]] then
        local score = tonumber(redis.call('zscore', KEYS[3], waiters[i]) or '0')
        if score > 0 then
            seen[waiters[i]] = true
            -- Each who takes the lock before it takes one wait off its time again. Nobody's is ever shortened.
            local believed = now + math.max(0, left) + (i - first + 1) * wait
            if score < believed then
                redis.call('zadd', KEYS[3], believed, waiters[i])
            end
            local lives = alive[waiters[i]]
            if tonumber(redis.call('hget', KEYS[4], waiters[i]) or '0') < now + lives then
                redis.call('hset', KEYS[4], waiters[i], now + lives)
            end
            -- That has to be there as long as the score is: without it, the score would be believed.
            lasts = math.max(lasts, math.ceil(math.max(score, believed) - now))
        end
    end
    if of_this_client(waiters[i]) then
        -- Should the one right before it be dead, nobody else looks when that one's time is over.
        local before = i - 1
        while before >= first and not of_this_client(waiters[before]) do
            local ends = believed_until(waiters[before])
            if ends > now then
                again = math.min(again, ends - now)
                break
            end
            before = before - 1
        end
    end
end
if lasts > 0 and redis.call('pttl', KEYS[4]) < lasts then
    redis.call('pexpire', KEYS[4], lasts)
end
local head = left == -2 and waiters[first]
if head then
    -- Who is alive is told, and takes it.
    local ends = waits[head] and tonumber(redis.call('zscore', KEYS[3], head)) or believed_until(head)
    again = math.min(again, ends - now)
end
local reply = {again < math.huge and math.max(0, math.ceil(again)) or -1, head or ''}
for i = 2, #ARGV, 3 do
    if not seen[ARGV[i]] then
        reply[#reply + 1] = ARGV[i]
    end
end
return reply
