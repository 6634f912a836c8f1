-- Sends the heartbeats of one client's waiters for a fair lock: each counts as alive for longer. Drops waiters that
-- have sent none in time.
-- KEYS  1 lock (hash)  2 queue (list)  3 timeouts (sorted set)  4 alive (hash; ours alone)
-- ARGV  1 minimum queue credit of any waiter, ms  2.. of each waiter: owner; its wait, ms; its heartbeat timeout, ms
-- Reply {ms, head, owner...}: look again in this many ms (-1: only when notified); whose turn it is, if the lock is
--       free, else ''; then those of the given waiters who are not in the queue.
-- include: now
-- include: live_for
local queue, timeouts, alive = KEYS[2], KEYS[3], KEYS[4]
local left = redis.call('pttl', KEYS[1])
local waits, lives, scores = {}, {}, {}
for i = 2, #ARGV, 3 do
    waits[ARGV[i]] = math.max(tonumber(ARGV[i + 1]), tonumber(ARGV[1]))
    lives[ARGV[i]] = tonumber(ARGV[i + 2])
    scores[ARGV[i]] = tonumber(redis.call('zscore', timeouts, ARGV[i]))
end
-- include: fair_queue
-- An entry without a score is no waiter's, whoever it names: that one joins the queue anew.
drop_dead(scores)
local waiters = redis.call('lrange', queue, 0, -1)
local client = string.match(ARGV[2] or '', '.*:') or ''
local function of_this_client(waiter)
    return string.sub(waiter, 1, #client) == client
end
local again = left >= 0 and left or math.huge
local lasts = 0
local seen = {}
for i, waiter in ipairs(waiters) do
    local score = scores[waiter]
    if score and not seen[waiter] then
        seen[waiter] = true
        -- Each one who acquires the lock before it subtracts a wait from its time again. No time is ever shortened.
        local believed = now + math.max(0, left) + i * waits[waiter]
        if score < believed then
            redis.call('zadd', timeouts, believed, waiter)
        end
        local beats = now + lives[waiter]
        if tonumber(redis.call('hget', alive, waiter) or '0') < beats then
            redis.call('hset', alive, waiter, beats)
        end
        -- The heartbeat has to be stored as long as the score: without it, the score would be believed.
        lasts = math.max(lasts, math.ceil(math.max(score, believed) - now))
    end
    if of_this_client(waiter) then
        -- If the one right before it is dead, no other client looks when that one's time is over.
        local before = i - 1
        while before > 0 and not of_this_client(waiters[before]) do
            local ends = believed_until(waiters[before])
            if ends > now then
                again = math.min(again, ends - now)
                break
            end
            before = before - 1
        end
    end
end
if lasts > 0 then
    live_for(alive, lasts)
end
local head = left == -2 and waiters[1]
if head then
    -- A waiter of this client is alive: it is notified, and acquires the lock.
    local ends = waits[head] and tonumber(redis.call('zscore', timeouts, head)) or believed_until(head)
    again = math.min(again, ends - now)
end
local reply = {again < math.huge and math.max(0, math.ceil(again)) or -1, head or ''}
for i = 2, #ARGV, 3 do
    if not seen[ARGV[i]] then
        reply[#reply + 1] = ARGV[i]
    end
end
return reply
