-- Attempts, and notifies the waiting readers if the lock is read then: they need not wait for its release.
-- Expects  KEYS[1] lock; attempt(): the reply; choose(waiting, publish): whether any client was notified
-- Defines  attempt_alone; attempt(): the reply
local attempt_alone = attempt
local function attempt()
    local reply = attempt_alone()
    if redis.call('hget', KEYS[1], 'mode') == 'read' then
        redis.pcall('zrem', KEYS[#KEYS], ARGV[#ARGV - 5]) -- Not this one; what it waits for is noted behind.
        pcall(choose, KEYS[#KEYS], ARGV[#ARGV])
    end
    return reply
end
