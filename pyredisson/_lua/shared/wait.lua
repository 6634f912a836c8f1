-- Attempts for a client that waits, and keeps the wait queue: a member for each client, with the time since which it
-- waits, and the observers. The key and the six arguments that concern the queue are the last ones:
--     the client and the number of its wait  for how long its first waiter has waited, ms (a writer of a read-write lock:
--     less $WRITERS)  and the next one (-1: there is none)  '1': it was notified that it is its turn  for how long the
--     queue is kept, ms  PUBLISH or SPUBLISH
-- Nothing may fail once something has been acquired.
-- Expects  attempt(): the reply; server_ms(); keep_observers(waiting, publish, trusted, refused)
-- Defines  waiting: key; me, waited, rest: arguments; chosen, kept, publish: arguments; reply; granted;
--          outcome; refused; note()
local waiting = KEYS[#KEYS]
local me, waited, rest = ARGV[#ARGV - 5], ARGV[#ARGV - 4], ARGV[#ARGV - 3]
local chosen, kept, publish = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
local reply = attempt()
local outcome = type(reply) == 'table' and reply[1] -- Of permits: how many were taken.
local granted = not reply or outcome == 'token' or type(outcome) == 'number' and outcome > 0
local refused = type(reply) == 'number' or outcome == 0
local function note()
    local since = refused and waited or rest
    if since == '-1' then
        local removed = redis.call('zrem', waiting, me, '$OBSERVER' .. string.match(me, '^[^:]+'))
        if removed > 0 then
            keep_observers(waiting, publish, 1000)
        end
    else
        since = string.format('%.0f', server_ms() - tonumber(since))
        redis.call('zadd', waiting, since, me)
        if redis.call('pttl', waiting) < tonumber(kept) then
            redis.call('pexpire', waiting, kept)
        end
        keep_observers(waiting, publish, 1000, refused and string.match(me, '^[^:]+'))
    end
    if chosen == '1' and granted and redis.call('exists', waiting) == 1 and redis.call('zcount', waiting, '$PROMISED', '+inf') == 0 then
        redis.call(publish, waiting, '$ACQUIRED') -- The observers need not attempt: those who were notified have.
    end
end
if granted then
    pcall(note)
elseif refused then
    -- It changes nothing. If the server is out of memory, the client waits without a place in the queue.
    local probe = redis.pcall('zadd', waiting, 'xx', '0', '')
    if type(probe) ~= 'table' then
        note()
    elseif not string.find(probe.err, 'OOM', 1, true) then
        return probe
    end
end
return reply
