-- Tells the client that has waited longest that it is its turn, and takes it off the list of those who wait: if it comes
-- too late, it puts itself back. A client that does not hear this is gone, and the next one is told. If it was an ear,
-- another one is in its place, which does not depend on it. A user who may not use the list tells none.
-- Expects  keep_ears(waiting, publish, trusted)
-- Defines  choose(waiting, publish, from, to): whether one was told, of those between two scores or of all
local function choose(waiting, publish, from, to)
    while true do
        local head = redis.pcall('zrangebyscore', waiting, from or '-inf', to or '(1e15', 'limit', 0, 1)[1]
        if not head then
            return false
        end
        local client = string.match(head, '^[^:]+')
        local heard = redis.pcall('zrem', waiting, head)
        if heard == 1 then
            heard = redis.pcall(publish, waiting .. ':' .. client, 'go')
        end
        if redis.pcall('zrem', waiting, 'ear:' .. client) == 1 then
            pcall(keep_ears, waiting, publish, 1000)
        end
        if heard ~= 0 then
            return type(heard) == 'number'
        end
    end
end
