-- Takes permits, all or none.
-- KEYS  1 semaphore (string)  2 last request of the owner
-- ARGV  1 number of the request  2 permits
-- Reply {taken, left}: how many were taken, and how many are available then (0 in the reply to a repeated
--       request; nil if the semaphore was never given any).
--       {'stale', number}: a newer request has overtaken it.
-- include: number_guard
if number == ARGV[1] then
    -- A repeated request is answered with the outcome of the first copy. More copies may be on their way.
    -- include: keep_record
    return {tonumber(outcome), 0}
end
local stored = redis.call('get', KEYS[1])
local left = tonumber(stored or 0)
local taken = '0'
if stored and not (left and left < tonumber(ARGV[2])) then
    left = redis.call('decrby', KEYS[1], ARGV[2])
    taken = ARGV[2]
else
    -- A refusal is recorded even if the server is out of memory: a late copy must not take anything.
    -- include: keep_record
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. taken, 'px', 60000)
return {tonumber(taken), stored and left}
