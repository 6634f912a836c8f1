-- Notifies the client that has waited longest that it is its turn, and takes it out of the wait queue: if it
-- attempts too late, it puts itself back. A client that does not receive this is gone, and the next one is notified. If it
-- was an observer, another one replaces it, which does not depend on it. A user who may not publish to them notifies none
-- and removes none; one who may not remove it from the queue stops at the first.
-- Expects  keep_observers(waiting, publish, trusted)
-- Defines  unpublished: whether the user may not do that; choose(waiting, publish, from, to): whether one was notified,
--          of those between two scores or of all
local unpublished = false
local function choose(waiting, publish, from, to)
    while true do
        -- Without scores by its place, which takes the server a fraction of the time.
        local head = (from and redis.pcall('zrangebyscore', waiting, from, to, 'limit', 0, 1)
            or redis.pcall('zrange', waiting, 0, 0))[1]
        if not head or string.find(head, '^$OBSERVER') then
            return false
        end
        local client = string.match(head, '^[^:]*') -- Empty if it is no client, and then nobody receives this.
        local heard = redis.pcall(publish, waiting .. ':' .. client, '$GO')
        if type(heard) ~= 'number' then
            unpublished = true
            return false
        end
        local removed = redis.pcall('zrem', waiting, head)
        if redis.pcall('zrem', waiting, '$OBSERVER' .. client) == 1 then
            pcall(keep_observers, waiting, publish, 1000)
        end
        if type(removed) ~= 'number' then
            unpublished = true -- It would be chosen again and again.
            return false
        elseif heard > 0 then
            return true
        end
    end
end
