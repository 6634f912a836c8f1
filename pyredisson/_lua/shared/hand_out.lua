-- Notifies clients that wait for permits that it is their turn, in the order of their waits: as many as there are permits
-- for, less those that were notified before and have not attempted yet. These stand behind the observers, with $PROMISED
-- added to the time of the notification; one that has not attempted after 200 ms is considered gone. A member of the queue
-- ends with the number of permits that the client wants; one that wants more than there are lets others pass. A user who
-- may not publish to its clients notifies none and removes none; so does one who may not use the queue, which is nil then.
-- Expects  server_ms(); keep_observers(waiting, publish, trusted)
-- Defines  denied: whether the user may not publish to them; hand_out(waiting, publish, available, message): the permits
--          that are left then (message: for the observers)
local denied = false
local function hand_out(waiting, publish, available, message)
    local free = available
    if not waiting or free <= 0 or redis.call('exists', waiting) == 0 then
        return free
    end
    pcall(function()
        redis.call('zrem', waiting, '') -- After this, a server that is out of memory accepts ZADD.
        local now = server_ms()
        local before = redis.call('zrangebyscore', waiting, '$PROMISED', '+inf', 'withscores')
        for i = 1, #before, 2 do
            if now - (tonumber(before[i + 1]) - $PROMISED) < $NOTIFIED_FOR_MS then
                free = free - (tonumber(string.match(before[i], '%d*$')) or 0)
            else
                redis.call('zrem', waiting, before[i])
            end
        end
        local passed, notified, observers = 0, 0, 0
        while free > 0 do
            local some = redis.call('zrangebyscore', waiting, '-inf', '($OBSERVERS', 'limit', passed, 10)
            for _, member in ipairs(some) do
                -- Of a member that is no client, these are empty: nobody receives its message.
                local client, wanted = string.match(member, '^([^:]*).-(%d*)$')
                wanted = tonumber(wanted) or 0
                if wanted > free then
                    passed = passed + 1
                else
                    local heard = redis.pcall(publish, waiting .. ':' .. client, '$GO')
                    if type(heard) ~= 'number' then
                        denied = true
                        return
                    end
                    if heard > 0 then
                        -- Added first: a queue that has become empty would end, and another one would last for ever.
                        redis.call('zadd', waiting, string.format('%.0f', $PROMISED + now), '$PROMISE' .. member)
                        free = free - wanted
                        notified = notified + 1
                    end
                    redis.call('zrem', waiting, member)
                    observers = observers + redis.call('zrem', waiting, '$OBSERVER' .. client)
                end
            end
            if #some < 10 then
                break
            end
        end
        if observers > 0 then
            keep_observers(waiting, publish, 1000)
        end
        if notified > 0 and redis.call(publish, waiting, message) == 0 then
            keep_observers(waiting, publish, 0)
        end
    end)
    return free
end
