-- Looks after waiters of a fair lock who are alive: each is believed in for longer, and those who are gone are dropped.
-- KEYS  1 lock (hash)  2 queue (list)  3 timeouts (sorted set)
-- ARGV  1 the least that a waiter is believed in for, ms  2.. owner and wait (ms) of each
-- Reply {ms, head, owner...}: worth another look after so many ms (-1: only when told); whose turn it is if the lock is
--       free, else ''; then those of the given who do not stand in the queue.
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local left = redis.call('pttl', KEYS[1])
local waits = {}
for i = 2, #ARGV, 2 do
    waits[ARGV[i]] = math.max(tonumber(ARGV[i + 1]), tonumber(ARGV[1]))
end
local waiters = redis.call('lrange', KEYS[2], 0, -1)
local first = 1
-- An entry without a score is of nobody, whoever it names: it asks for its place anew.
while waiters[first] do
    local score = tonumber(redis.call('zscore', KEYS[3], waiters[first]) or '0')
    if score > now or (score > 0 and waits[waiters[first]]) then
        break
    end
    redis.call('zrem', KEYS[3], waiters[first])
    redis.call('lpop', KEYS[2])
    first = first + 1
end
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
        end
    end
end
local reply = {left, ''}
if left == -2 then
    local head = waiters[first]
    reply[1] = -1
    if head then
        reply[1] = math.max(0, math.ceil(tonumber(redis.call('zscore', KEYS[3], head)) - now))
        reply[2] = head
    end
end
for i = 2, #ARGV, 2 do
    if not seen[ARGV[i]] then
        reply[#reply + 1] = ARGV[i]
    end
end
return reply
