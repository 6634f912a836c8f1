-- Takes a fenced lock, or takes it once more. As lock_acquire, with a token for each hold that does not join another.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 token (string)
-- ARGV  1 lease, ms  2 owner  3 holds the client counts  4 epoch  5 '1' if an earlier copy of this request may have run
--       6 token of the hold that this one joins, '' if there is none  7 '1': tokens follow the server's clock
-- Reply {'token', token}: taken.  integer: another owner has it, for so many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
local stored = redis.call('get', KEYS[2])
if stored and tonumber(stored) > tonumber(ARGV[4]) then
    return {'stale', stored}
end
local held = redis.call('hget', KEYS[1], ARGV[2])
local wanted = tonumber(ARGV[3]) + 1
if not held then
    if redis.call('exists', KEYS[1]) == 1 then
        if ARGV[3] ~= '0' then
            return {'lost'}
        end
        if ARGV[4] ~= '0' and stored ~= ARGV[4] then
            redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
        end
        return redis.call('pttl', KEYS[1])
    end
    if ARGV[3] ~= '0' then
        return {'lost'}
    end
elseif held ~= ARGV[3] and wanted ~= 1 and not (ARGV[5] == '1' and tonumber(held) == wanted) then
    return {'lost'}
end
local token = ARGV[6]
-- A token that this server has not drawn is of a master that it replaced: it must draw none that a guard refuses then.
local behind = token ~= '' and tonumber(token) > tonumber(redis.call('get', KEYS[3]) or '0')
if token == '' then
    if held and ARGV[5] == '1' and tonumber(held) == wanted then
        -- An earlier copy of this request took the hold, and its token with it.
        token = redis.call('get', KEYS[3])
    end
    if not token or token == '' then
        if ARGV[7] == '1' then
            local last = tonumber(redis.call('get', KEYS[3]) or '0')
            local now = redis.call('time')
            token = string.format('%.0f', math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2])))
            redis.call('set', KEYS[3], token)
        else
            token = string.format('%.0f', redis.call('incr', KEYS[3]))
        end
    end
end
if ARGV[4] ~= '0' and stored ~= ARGV[4] then
    -- From here on, whatever copies of older requests are still under way are refused.
    redis.call('set', KEYS[2], ARGV[4], 'px', math.max(60000, tonumber(ARGV[1])))
end
redis.call('hset', KEYS[1], ARGV[2], wanted)
if behind then
    redis.call('set', KEYS[3], token)
end
-- Nobody's time is cut short; a key without a TTL (PERSIST) gets one again.
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    local ends = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if ends ~= 1 then
        -- This user may not do that. Nobody is left with a lock that never ends.
        redis.call('del', KEYS[1])
        return ends
    end
end
return {'token', token}
