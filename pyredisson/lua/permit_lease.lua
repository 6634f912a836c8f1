-- Gives a permit another time at which it expires. Makes all permits available whose time is over.
-- KEYS  1 semaphore (string)  2 permits taken (sorted set)  3 channel  4 what the owner asked last
-- ARGV  1 number of the request  2 id, sixteen bytes  3 lease from now on, ms (-1: for ever)  4 PUBLISH or SPUBLISH
-- Reply 1: done.  0: unknown, or it had expired.  {'stale', number}: overtaken by a newer request.
local number, outcome = string.match(redis.call('get', KEYS[4]) or '', '^(%d+) (%-?%d+)$')
if number == ARGV[1] then
    -- A repeat is answered with what came of it; further copies may still be under way.
    redis.call('pexpire', KEYS[4], 60000)
    return tonumber(outcome)
elseif number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
redis.call('pexpire', KEYS[4], 60000)
local never = 922337203685477
local time = redis.call('time')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local purged = 0
repeat  -- In parts: unpack() takes no more than some thousands.
    local expired = redis.call('zrangebyscore', KEYS[2], 0, string.format('%.0f', now), 'limit', 0, 1000)
    if #expired > 0 then
        redis.call('zrem', KEYS[2], unpack(expired))
        purged = purged + #expired
    end
until #expired < 1000
if purged > 0 then
    local total = redis.call('incrby', KEYS[1], purged)
    if total > 0 then
        redis.call(ARGV[4], KEYS[3], string.format('%.0f', total))
    end
end
local changed = 0
if redis.call('zscore', KEYS[2], ARGV[2]) then
    local ends = never
    if ARGV[3] ~= '-1' then
        ends = math.min(now + tonumber(ARGV[3]), never)
    end
    redis.call('zadd', KEYS[2], string.format('%.0f', ends), ARGV[2])
    changed = 1
end
redis.call('set', KEYS[4], ARGV[1] .. ' ' .. changed, 'px', 60000)
return changed
