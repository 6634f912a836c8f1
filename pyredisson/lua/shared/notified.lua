-- Reads whether the client was notified that it is its turn to acquire permits, and takes that off the list. This comes
-- first, since a user who may not use the list must acquire nothing. The probe changes nothing, so that a server out of
-- memory refuses the attempt as well: it would accept what follows a change.
-- Keys and arguments are those of wait.
-- Expects  nothing
-- Defines  list: key; member; on_list: the reply of the probe
local list, member = KEYS[#KEYS], 'notified:' .. ARGV[#ARGV - 5]
local on_list = redis.pcall('zadd', list, 'xx', '0', '')
if type(on_list) == 'table' and not string.find(on_list.err, 'OOM', 1, true) then
    return on_list
end
if redis.call('zscore', list, member) then
    redis.call('zrem', list, member)
    ARGV[#ARGV - 2] = '1'
end
