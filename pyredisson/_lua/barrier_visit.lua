-- Waits at a barrier, leaves, breaks or resets it. Who joins last opens it. Who waits has a number, and counts for as long as
-- its client checks; it stands in a hash, by its number, with the time until which it counts. In that hash are also the last
-- generation that ended without being opened ('ended'), and whether the barrier is broken ('broken'). The message of an end
-- says what ended which generation: 'wait 3' that number 3 was opened.
-- KEYS  1 barrier (string)  2 last request of the owner  3 waiters (hash), and the channel
-- ARGV  1 number of the request  2 PUBLISH or SPUBLISH  3 'wait', 'leave', 'break', 'reset' or 'count'  4 number of parties
--       5 member  6 generation that it has joined; '' if it has joined none  7 for how long it counts, ms
--       8 'never', 'last' or 'now': whether it opens the barrier if all are there
-- Reply to 'count' how many wait; else 2 * (parties * generation + number of the waiter): it waits; and 1: it is the last.  -1: it is broken.
--       -2 - number of the waiter: it opened it.  -2 - parties: it is full, until that is opened.  -3 - parties: it was opened.
--       {'stale', number}: a newer request has overtaken it.
-- The first write is one that a server out of memory still accepts (PEXPIRE); then it accepts the rest.
-- include: now
-- include: number_guard
-- include: repeated
-- include: keep_record
local parties, mode, joined = tonumber(ARGV[4]), ARGV[3], tonumber(ARGV[6])
-- A database that sees the barrier for the first time begins to count by its clock: messages reach all databases.
local stored = redis.call('get', KEYS[1])
local generation = tonumber(stored or clock[1] % 16 * 1000000 + clock[2])
if (generation or 0.5) % 1 ~= 0 then return redis.error_reply('ERR value is not an integer or out of range') end
local broken, unopened = unpack(redis.call('hmget', KEYS[3], 'broken', 'ended'))
local mine, free, count = nil, nil, 0
local waiting = redis.call('hlen', KEYS[3]) - (broken and 1 or 0) - (unopened and 1 or 0)
local ended = stored and (unopened or -1) or generation - 1 -- What the server has forgotten was not opened.
if mode == 'wait' and not joined and waiting < parties - 1 and redis.call('hexists', KEYS[3], waiting) == 0 then
    free = waiting -- Some are missing, whether or not all that stand there count.
elseif not joined or joined == generation then
    for number = 0, parties - 1 do
        local ends, who = string.match(redis.call('hget', KEYS[3], number) or '', '^(%d+) (.*)$')
        if not ends or tonumber(ends) <= now then
            free = free or number
        else
            count = count + 1
            mine = who == ARGV[5] and number or mine
        end
    end
end
local function finish(opened)
    -- Redis sends the message when the script ends. It comes first, so that a user who may not publish changes nothing.
    redis.call(ARGV[2], KEYS[3], mode .. ' ' .. generation)
    redis.call('del', KEYS[3])
    redis.call('hset', KEYS[3], 'ended', opened and ended or generation)
    redis.call('set', KEYS[1], string.format('%.0f', generation + 1))
end
local reply = -1
if mode == 'reset' then
    if broken or count > 0 then
        finish(false)
    end
elseif mode == 'count' then
    reply = count
elseif joined and joined ~= generation then
    reply = joined < generation and tonumber(ended) < joined and -3 - parties or -1
elseif mode == 'leave' then
    if mine then
        redis.call('hdel', KEYS[3], mine)
    end
elseif mode == 'break' then
    if not broken then
        finish(false)
        redis.call('hset', KEYS[3], 'broken', 1)
    end
elseif not broken and not (mine or free) then
    reply = -2 - parties
elseif not broken then
    local last = count + (mine and 0 or 1) == parties and not mine
    mine, count = mine or free, count + (mine and 0 or 1)
    if count == parties and (ARGV[8] == 'now' or last and ARGV[8] == 'last') then
        finish(true)
        reply = -2 - mine
    else
        redis.call('hset', KEYS[3], mine, string.format('%.0f ', now + tonumber(ARGV[7])) .. ARGV[5], 'ended', ended)
        redis.call('set', KEYS[1], string.format('%.0f', generation))
        reply = 2 * (parties * generation + mine) + (last and 1 or 0)
    end
end
redis.call('pexpire', KEYS[1], 86400000)
redis.call('pexpire', KEYS[3], 86400000)
-- include: record
