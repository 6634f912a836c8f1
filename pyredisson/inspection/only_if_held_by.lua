-- Frees a lock with the script of its kind, but only if those hold it who are meant.
-- KEYS  as that script has them
-- ARGV  as that script has them, then: form ('owners', 'sides' or 'token'), mode ('read', 'write' or ''), who may
--       hold it (the beginning of a client's id, an owner, or a token; none: any), and the number of these arguments
-- Reply {'freed' | 'not_held' | 'other_holder', subscribers notified by this block, owner ...}
local function force()
    -- script
end
local count = tonumber(ARGV[#ARGV])
local first = #ARGV - count
local form, mode = ARGV[first], ARGV[first + 1]
local stored = redis.call('type', KEYS[1])['ok']
local owners = {}
if form == 'token' and stored == 'string' then
    owners = {redis.call('get', KEYS[1])}
elseif form ~= 'token' and stored == 'hash' then
    for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
        if field ~= 'mode' then
            owners[#owners + 1] = field
        end
    end
end
if #owners == 0 then
    return {'not_held', 0}
end
local others = form == 'sides' and redis.call('hget', KEYS[1], 'mode') ~= mode
for _, owner in ipairs(owners) do
    local meant = count == 2
    for at = first + 2, #ARGV - 1 do
        local name = ARGV[at]
        if string.find(name, ':', 1, true) and form ~= 'token' then
            meant = meant or owner == name or string.sub(owner, 1, #name + 1) == name .. ':'
        else
            meant = meant or string.sub(owner, 1, #name) == name
        end
    end
    others = others or not meant
end
-- A token is a secret: who knows it can release the lock.
local shown = form == 'token' and {} or owners
if others then
    return {'other_holder', 0, unpack(shown, 1, 100)}
end
-- For `pyredisson watch`: that this is no release by a holder. An ACL may forbid that channel.
redis.pcall('publish', 'pyredisson_forced:{' .. KEYS[1] .. '}', '')
-- Waiters of a fair lock have channels of their own, which its script serves; those of any other lock have this one.
local notified = form == 'owners' and redis.call(ARGV[4], KEYS[6], ARGV[5]) or 0
force()
return {'freed', notified, unpack(shown, 1, 100)}
