-- Lets an attempt to acquire permits notify other clients, too: those for whom there are permits left, and the first one
-- of when the next permit expires. Then only that one attempts at that time, and the observers, in case it is gone.
-- Nothing may fail once something has been acquired.
-- Expects  KEYS[1] semaphore; attempt(): the reply; hand_out(waiting, publish, available, message); now: ms since the epoch
-- Defines  ask(); pass_on(reply); attempt()
local ask = attempt
local function pass_on(reply)
    local waiting, publish = KEYS[#KEYS], ARGV[#ARGV]
    local me, waited, rest = ARGV[#ARGV - 5], ARGV[#ARGV - 4], ARGV[#ARGV - 3]
    redis.call('zrem', waiting, me) -- It is put back later.
    local free = hand_out(waiting, publish, tonumber(redis.call('get', KEYS[1]) or 0) or 0, '$NOTIFIED_ALONE')
    if reply[2] then
        reply[2] = math.min(reply[2], free)
    end
    local first = redis.call('zrangebyscore', waiting, '-inf', '($OBSERVERS', 'withscores', 'limit', 0, 1)
    local since = reply[1] == 0 and waited or rest
    if first[1] and (reply[3] or -1) >= 0 and (since == '-1' or tonumber(first[2]) <= now - tonumber(since)) then
        local client = string.match(first[1], '^[^:]*')
        redis.call(publish, waiting .. ':' .. client, '$EXPIRES' .. string.format('%.0f', reply[3]))
        local observes = redis.call('zscore', waiting, '$OBSERVER' .. string.match(me, '^[^:]+'))
        reply[3] = observes and reply[3] + $NOTIFIED_FOR_MS or -1
    end
end
local function attempt()
    local reply = ask()
    if type(reply[1]) == 'number' then
        pcall(pass_on, reply)
    end
    return reply
end
