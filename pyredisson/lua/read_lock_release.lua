-- Gives back one hold of the read side. The last reader frees the lock and wakes those who wait; else the lock lives as
-- long as the longest hold that remains. Readers whose holds have all ended count for nothing.
-- KEYS  1 lock (hash)  2 channel  3 epoch of the owner  4 the hold that goes (string)
-- ARGV  1 message  2 lease of the holds that remain, ms  3 owner
--       4 holds the client counts ('0': it lost them, give up whatever stands here)
--       5 epoch  6 '1' if an earlier copy of this request may have run  7 PUBLISH, SPUBLISH or '' (nobody is told)
-- Reply 1 + n: free, and n connections heard of it.  0: still held, by this owner or others.
--       nil: the owner does not hold what the client counts.  {'stale', epoch}: overtaken by a newer request.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE); it then lets the rest run.
local stored = redis.call('get', KEYS[3])
if stored and tonumber(stored) > tonumber(ARGV[5]) then
    return {'stale', stored}
end
local reply = false
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[3])
local mode, held = found[1], found[2]
local left = -1
if mode and held then
    if held == ARGV[4] or ARGV[4] == '0' then
        left = math.max(tonumber(ARGV[4]) - 1, 0)
    elseif ARGV[6] == '1' and tonumber(held) == tonumber(ARGV[4]) - 1 then
        left = tonumber(held)
    end
end
if left > 0 then
    local holds = string.match(KEYS[4], '^(.*:)%d+$')
    local longest = -2
    for i = 1, tonumber(held) do
        longest = math.max(longest, redis.call('pttl', holds .. i))
    end
    if longest ~= -2 then
        -- The newest hold goes, whichever it is; its time stays, since nested holds share the latest end.
        longest = math.max(longest, tonumber(ARGV[2]))
        redis.call('del', holds .. (left + 1))
        if redis.call('pttl', KEYS[1]) < longest then
            redis.call('pexpire', KEYS[1], longest)
        end
        redis.call('set', holds .. left, 1, 'px', longest)
        redis.call('hset', KEYS[1], ARGV[3], left)
        reply = 0
    end
elseif left == 0 then
    local free = redis.call('hlen', KEYS[1]) == 2
    local cut = false
    if not free and mode == 'read' then
        -- The lock lives for its longest hold. Half a second is of no interest: one other hold that lives about as long as
        -- the lock is enough, and among many that came one after another any will do.
        local ends = redis.call('pttl', KEYS[1])
        local enough = ends > 0 and ends - 500 or math.huge
        local before = string.sub(KEYS[4], 1, -1 - #ARGV[3] - #':rwlock_timeout:' - #ARGV[4])
        local any = redis.call('hrandfield', KEYS[1])
        any = type(any) == 'table' and any[1] or any -- as fakeredis replies
        if any == ARGV[3] or redis.call('pttl', before .. any .. ':rwlock_timeout:1') < math.max(enough, 1) then
            local fields = redis.call('hgetall', KEYS[1])
            local longest = -2
            -- Those who came last stand last, and mostly live longest.
            for at = #fields - 1, 1, -2 do
                if fields[at] ~= ARGV[3] then
                    for i = tonumber(fields[at + 1]) or 0, 1, -1 do
                        local other = redis.call('pttl', before .. fields[at] .. ':rwlock_timeout:' .. i)
                        longest = math.max(longest, other == -1 and math.huge or other)
                    end
                    if longest >= math.max(enough, 1) then
                        break
                    end
                end
            end
            free = longest <= 0
            if not free and longest < enough then
                cut = longest
            end
        end
    end
    if free then
        -- The message leaves when the script is over. It goes first: a user who may not publish shall free nothing.
        reply = 1
        if ARGV[7] ~= '' then
            reply = 1 + redis.call(ARGV[7], KEYS[2], ARGV[1])
        end
    else
        reply = 0
    end
    local alive = redis.call('del', KEYS[4])
    for i = 2, held ~= '1' and tonumber(held) or 1 do
        alive = alive + redis.call('del', string.match(KEYS[4], '^(.*:)%d+$') .. i)
    end
    if free then
        redis.call('del', KEYS[1])
    else
        redis.call('hdel', KEYS[1], ARGV[3])
        if cut then
            redis.call('pexpire', KEYS[1], cut)
        end
    end
    if alive == 0 then
        reply = false -- It had ended before; only its field was left.
    end
elseif left < 0 and not mode and ARGV[6] ~= '1' and ARGV[7] ~= '' and redis.call('exists', KEYS[1]) == 0 then
    -- It has gone without a word, and some may wait for its time to be over.
    redis.pcall(ARGV[7], KEYS[2], ARGV[1])
end
if ARGV[5] ~= '0' and stored ~= ARGV[5] then
    -- A server short of memory takes a PEXPIRE, even of nothing, and then the SET too.
    redis.call('pexpire', KEYS[3], 60000)
    redis.call('set', KEYS[3], ARGV[5], 'px', math.max(60000, tonumber(ARGV[2])))
end
return reply
