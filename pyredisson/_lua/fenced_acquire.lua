-- Acquires a fenced lock, or one more hold for an owner who holds it. A hold that joins another gets its token, each
-- other one a new token.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 token (string)
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
--       6 token of the hold that this one joins, '' if there is none  7 '1': tokens follow the server's clock
-- Reply {'token', token}: acquired.  integer: another owner holds it, for this many ms (-1: without end).
--       {'lost'}: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
-- include: epoch_read
-- include: epoch_guard
local held = redis.call('hget', KEYS[1], ARGV[1])
local wanted = tonumber(ARGV[5]) + 1
if not held then
    -- include: no_hold
    if redis.call('exists', KEYS[1]) == 1 then
        -- include: epoch_raise
        return redis.call('pttl', KEYS[1])
    end
elseif held ~= ARGV[5] and wanted ~= 1 and not (ARGV[3] == '1' and tonumber(held) == wanted) then
    return {'lost'}
end
local token = ARGV[6]
-- A token that this server has not drawn is of a master that it replaced: the next one must be greater.
local behind = token ~= '' and tonumber(token) > tonumber(redis.call('get', KEYS[3]) or '0')
if token == '' and held and ARGV[3] == '1' and tonumber(held) == wanted then
    -- An earlier copy of this request acquired the hold, and drew its token.
    token = redis.call('get', KEYS[3]) or ''
end
if token == '' and ARGV[7] == '1' then
    local last = tonumber(redis.call('get', KEYS[3]) or '0')
    local now = redis.call('time')
    token = string.format('%.0f', math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2])))
    redis.call('set', KEYS[3], token)
elseif token == '' then
    token = string.format('%.0f', redis.call('incr', KEYS[3]))
end
-- include: epoch_raise
redis.call('hset', KEYS[1], ARGV[1], wanted)
if behind then
    redis.call('set', KEYS[3], token)
end
-- A time to live is never shortened; a key without one (PERSIST) gets one again.
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[4]) then
    -- include: first_lease
end
return {'token', token}
