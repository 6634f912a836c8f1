-- Makes two of the waiting clients listen to the channel of the lock: the ears. They are on the list of waiting clients,
-- behind all others, with 1e15 added to the time at which they last were known to listen. A client that does not receive
-- a message is gone. New ears are the newest clients, which wait longest from now on; 'only' says that there is no other.
-- Expects  nothing
-- Defines  server_ms(): ms since the epoch; keep_ears(waiting, publish, trusted, left): trusted is for
--          how many ms an ear is known to listen, and left whether a client has left the list
local function server_ms()
    local clock = redis.call('time')
    return tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
end
local function keep_ears(waiting, publish, trusted, left)
    local now = server_ms()
    local stamp = string.format('%.0f', 1e15 + now)
    local ears = redis.call('zrangebyscore', waiting, '1e15', '(2e15', 'withscores')
    local missing = 2
    for i = 1, #ears, 2 do
        if now - (tonumber(ears[i + 1]) - 1e15) < trusted then
            missing = missing - 1
        elseif redis.call(publish, waiting .. ':' .. string.sub(ears[i], 5), 'ear') > 0 then
            redis.call('zadd', waiting, stamp, ears[i])
            missing = missing - 1
        else
            redis.call('zrem', waiting, ears[i])
            left = true
        end
    end
    local clients = missing > 0 and redis.call('zcount', waiting, '-inf', '(1e15') or 0
    local at = clients - 1
    while missing > 0 and at >= 0 do
        local newest = redis.call('zrange', waiting, at, at)[1]
        local client = string.match(newest, '^[^:]*')
        if not redis.call('zscore', waiting, 'ear:' .. client) then
            if redis.call(publish, waiting .. ':' .. client, missing == 2 and 'only' or 'ear') > 0 then
                redis.call('zadd', waiting, stamp, 'ear:' .. client)
                missing = missing - 1
            else
                redis.call('zrem', waiting, newest)
                clients = clients - 1
                left = true
            end
        elseif left and clients == 1 then
            redis.call(publish, waiting .. ':' .. client, 'only') -- Before, it was one of two ears.
        end
        at = at - 1
    end
end
