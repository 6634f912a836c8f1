-- Makes two of the clients in the wait queue receive the messages on the channel of the lock: the observers. They stand in
-- the queue, behind all others, with $OBSERVERS added to the time at which they last were known to listen. A client that
-- does not receive a message is gone. New observers are the newest clients, which wait longest from now on. One that was
-- refused just now attempts once more when it receives messages, since it may have missed a release. One that has waited
-- for a while does not, since the other observer receives them, and it would come before those who have waited longer.
-- Expects  nothing
-- Defines  server_ms(): ms since the epoch; keep_observers(waiting, publish, trusted, refused): trusted is for how many ms
--          an observer is known to listen, refused the client that was refused just now
local function server_ms()
    local clock = redis.call('time')
    return tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
end
local function keep_observers(waiting, publish, trusted, refused)
    local now = server_ms()
    local stamp = string.format('%.0f', $OBSERVERS + now)
    local observers = redis.call('zrangebyscore', waiting, '$OBSERVERS', '($PROMISED', 'withscores')
    local missing = $OBSERVER_COUNT
    for i = 1, #observers, 2 do
        if now - (tonumber(observers[i + 1]) - $OBSERVERS) < trusted then
            missing = missing - 1
        elseif redis.call(publish, waiting .. ':' .. string.match(observers[i], '^$OBSERVER(.*)'), '$OBSERVE') > 0 then
            redis.call('zadd', waiting, stamp, observers[i])
            missing = missing - 1
        else
            redis.call('zrem', waiting, observers[i])
        end
    end
    local at = missing > 0 and redis.call('zcount', waiting, '-inf', '($OBSERVERS') - 1 or -1
    while missing > 0 and at >= 0 do
        local newest = redis.call('zrange', waiting, at, at)[1]
        local client = string.match(newest, '^[^:]*')
        if not redis.call('zscore', waiting, '$OBSERVER' .. client) then
            local message = client == refused and '$OBSERVE_AND_ATTEMPT' or '$OBSERVE'
            if redis.call(publish, waiting .. ':' .. client, message) > 0 then
                redis.call('zadd', waiting, stamp, '$OBSERVER' .. client)
                missing = missing - 1
            else
                redis.call('zrem', waiting, newest)
            end
        end
        at = at - 1
    end
end
