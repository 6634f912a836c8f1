-- Takes permits, all or none.
-- KEYS  1 semaphore (string)  2 last request of the owner
--       3 in the first attempt of a client: the key that only the other kind of semaphore has
-- ARGV  1 number of the request  2 permits  3 only of a client that waits
-- Reply {taken, left}: how many were taken, and how many are available then (0 in the reply to a repeated
--       request; nil if the semaphore was never given any).
--       {-1}: the semaphore is of the other kind.
--       {'stale', number}: a newer request has overtaken it.
-- include: number_guard
if number == ARGV[1] then
    -- A repeated request is answered with the outcome of the first copy. More copies may be on their way.
    -- include: keep_record
    return {tonumber(outcome), 0}
end
if KEYS[3] and not ARGV[3] and redis.call('exists', KEYS[3]) == 1 then return {-1} end
local stored = redis.call('get', KEYS[1])
local left, taken = tonumber(stored or 0), '0'
if stored and not (left and left < tonumber(ARGV[2])) then
    left = redis.call('decrby', KEYS[1], ARGV[2])
    taken = ARGV[2]
else
    -- A refusal is recorded even if the server is out of memory: a late copy must not take anything.
    -- include: keep_record
end
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. taken, 'px', '60000')
return {tonumber(taken), stored and left}
