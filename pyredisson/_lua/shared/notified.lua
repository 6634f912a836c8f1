-- Reads whether the client was notified that it is its turn to acquire permits, and takes that out of the queue. This comes
-- first, since a user who may not use the queue must acquire nothing. The probe changes nothing, so that a server out of
-- memory refuses the attempt as well: it would accept what follows a change.
-- Keys and arguments are those of wait.
-- Expects  nothing
-- Defines  queue: key; member; probe: its reply
local queue, member = KEYS[#KEYS], '$PROMISE' .. ARGV[#ARGV - 5]
local probe = redis.pcall('zadd', queue, 'xx', '0', '')
if type(probe) == 'table' and not string.find(probe.err, 'OOM', 1, true) then
    return probe
end
if redis.call('zscore', queue, member) then
    redis.call('zrem', queue, member)
    ARGV[#ARGV - 2] = '1'
end
