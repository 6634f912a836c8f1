-- Attempts for a client that waits, and keeps the list of waiting clients: a member for each client, with the time since
-- which it waits, and the ears. The key and the six arguments that concern the list are the last ones:
--     the client and the number of its wait  for how long its first waiter has waited, ms (a writer of a read-write lock:
--     less 1e14)  and the next one (-1: there is none)  '1': it was notified that it is its turn  for how long the list is
--     kept, ms  PUBLISH or SPUBLISH
-- Nothing may fail once something has been acquired.
-- Expects  attempt(): the reply; server_ms(); keep_ears(waiting, publish, trusted, left)
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
        local removed = redis.call('zrem', waiting, me, 'ear:' .. string.match(me, '^[^:]+'))
        if removed > 0 and redis.call('exists', waiting) == 1 then
            keep_ears(waiting, publish, 1000, true)
        end
    else
        since = string.format('%.0f', server_ms() - tonumber(since))
        redis.call('zadd', waiting, since, me)
        if redis.call('pttl', waiting) < tonumber(kept) then
            redis.call('pexpire', waiting, kept)
        end
        keep_ears(waiting, publish, 1000)
        if chosen == '1' and type(reply) == 'number' then
            -- The holder has acquired the lock again, and may go on like this: each release would wake this client and both
            -- ears. So it replaces one of them, unless another one has done so.
            local ear = 'ear:' .. string.match(me, '^[^:]+')
            local ears = redis.call('zrangebyscore', waiting, '1e15', '(2e15', 'withscores')
            if #ears == 4 and ears[1] ~= ear and ears[3] ~= ear and not string.find(ears[2] .. ears[4], '.5', 1, true)
                and redis.call(publish, waiting .. ':' .. string.sub(ear, 5), 'ear') > 0 then
                redis.call('zadd', waiting, string.format('%.1f', 1e15 + server_ms() + 0.5), ear)
                redis.call('zrem', waiting, ears[1])
                redis.call(publish, waiting .. ':' .. string.sub(ears[1], 5), 'off')
            end
        end
    end
    if chosen == '1' and granted and redis.call('exists', waiting) == 1 and redis.call('zcount', waiting, '2e15', '+inf') == 0 then
        redis.call(publish, waiting, '3') -- The ears need not attempt: those who were notified have.
    end
end
if granted then
    pcall(note)
elseif refused then
    -- It changes nothing. If the server is out of memory, the client waits without a place on the list.
    local probe = redis.pcall('zadd', waiting, 'xx', '0', '')
    if type(probe) ~= 'table' then
        note()
    elseif not string.find(probe.err, 'OOM', 1, true) then
        return probe
    end
end
return reply
