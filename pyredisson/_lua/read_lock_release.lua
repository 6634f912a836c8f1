-- Releases one hold of the read side. The last reader frees the lock and wakes the waiters; else the lock lives as long
-- as the longest hold that remains. Readers whose holds have all expired do not count.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 channel  4 the hold to release (string)
--       5 wait queue (sorted set); missing if the user may not use it
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease of the remaining holds, ms
--       5 holds the client counts ('0': they are lost, remove what is stored)
--       6 PUBLISH, SPUBLISH or '' (do not publish)  7 message
-- Reply 1 + n: free, and n connections were notified.  0: still held, by this owner or others.
--       nil: the owner does not hold what the client counts.  {'stale', epoch}: a newer request has overtaken it.
--       -1 - v: v, and the user may not publish to the clients that wait.
-- The first write is one that a server out of memory still accepts (DEL, PEXPIRE, ZREM); then it accepts the rest.
local waiting = KEYS[5]
-- include: release
-- include: epoch_guard
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, held = found[1], found[1] and found[2]
-- include: holds_left
-- include: live_for
local holds = string.match(KEYS[4], '^(.*:)%d+$')
if left > 0 then
    local longest = -2
    for i = 1, tonumber(held) do
        longest = math.max(longest, redis.call('pttl', holds .. i))
    end
    if longest ~= -2 then
        -- The newest hold goes, whichever is released; its time stays, since nested holds share the latest end.
        longest = math.max(longest, lease)
        redis.call('del', holds .. (left + 1))
        live_for(KEYS[1], longest)
        redis.call('set', holds .. left, 1, 'px', longest)
        redis.call('hset', KEYS[1], ARGV[1], left)
        reply = 0
    end
elseif left == 0 then
    local free = redis.call('hlen', KEYS[1]) == 2
    local cut = false
    if not free and mode == 'read' then
        -- The lock lives as long as its longest hold. Half a second does not matter: one other hold that lives about as
        -- long as the lock is enough, and if many came one after another, a random one will do.
        local ends = redis.call('pttl', KEYS[1])
        local enough = ends > 0 and ends - 500 or math.huge
        local before = string.sub(KEYS[4], 1, -1 - #ARGV[1] - #':rwlock_timeout:' - #ARGV[5])
        local any = redis.call('hrandfield', KEYS[1], 1)[1]
        if any == ARGV[1] or redis.call('pttl', before .. any .. ':rwlock_timeout:1') < math.max(enough, 1) then
            local fields = redis.call('hgetall', KEYS[1])
            local longest = -2
            -- The newest readers are the last fields, and usually live longest.
            for at = #fields - 1, 1, -2 do
                if fields[at] ~= ARGV[1] then
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
            cut = longest < enough and longest
        end
    end
    reply = 0
    if free then
        if listed then
            local reads = false
            -- include: observers
            -- include: choose
            -- include: sides
            -- include: notify
        end
        -- include: publish_message
        reply = 1 + heard
        -- include: denied
    end
    local live = redis.call('del', KEYS[4])
    for i = 2, held ~= '1' and tonumber(held) or 1 do
        live = live + redis.call('del', holds .. i)
    end
    if free then
        redis.call('del', KEYS[1])
    else
        redis.call('hdel', KEYS[1], ARGV[1])
        if cut then
            redis.call('pexpire', KEYS[1], cut)
        end
    end
    if live == 0 then
        reply = false -- It had expired before; only its field was left.
    end
end
-- include: expired
-- include: epoch_store
return reply
