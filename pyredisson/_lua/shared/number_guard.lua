-- Refuses a request that a newer one of its owner has overtaken.
-- Expects  KEYS[2] last request of the owner; ARGV[1] number of this one
-- Defines  number, outcome: those of the last request, nil if there is none
local number, outcome = string.match(redis.call('get', KEYS[2]) or '', '^(%d+) (%-?%d+)$')
if number and tonumber(number) > tonumber(ARGV[1]) then
    return {'stale', number}
end
