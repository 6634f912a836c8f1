-- Adds a member to those who wait for a condition, if this release has freed the lock; a copy of it adds no one. They
-- stand in the order of their waits, which takes microseconds. The set is kept for an hour after the last check.
-- Expects  attempt(): the reply; waiters: key; member
-- Defines  reply
local reply = attempt()
if member ~= '' and type(reply) == 'number' and reply ~= 0 then
    local clock = redis.call('time')
    redis.call('zadd', waiters, clock[1] .. string.format('%06d', clock[2]), member)
    redis.call('pexpire', waiters, 3600000)
end
