-- Tells those who wait that the lock is free: of the clients on the list the first one, by a message of its own; the ears
-- that it was told ('2'); and by the channel of the lock all who are not on the list.
-- Expects  choose(waiting, publish): whether one was told; keep_ears(waiting, publish, trusted)
-- Defines  tell(waiting, channel, publish, message): how many heard of it
local function tell(waiting, channel, publish, message)
    local heard = 0
    if choose(waiting, publish) then
        heard = 1
        if redis.pcall(publish, waiting, '2') == 0 then
            pcall(keep_ears, waiting, publish, 0)
        end
    end
    return heard + redis.call(publish, channel, message)
end
