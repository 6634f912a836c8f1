-- Renews many permits. One that was released or has expired, or a key of another type, does not affect the others.
-- KEYS  1.. for each, the permits taken of its semaphore (sorted sets)
-- ARGV  1 lease from now on, ms  2.. the id of each, sixteen bytes
-- Reply array: 1 for each that is still taken, else 0
-- include: now
-- include: read_typed
local ends = now + tonumber(ARGV[1])
local function renew(i, key)
    local score = read_typed('zscore', key, ARGV[i + 1])
    if type(score) ~= 'string' or tonumber(score) <= now then
        return 0
    end
    if tonumber(score) < ends then
        -- The first write is one that a server out of memory still accepts; then it accepts the rest.
        redis.call('zrem', key, '')
        redis.call('zadd', key, string.format('%.0f', ends), ARGV[i + 1])
    end
    return 1
end
-- include: renew_all
