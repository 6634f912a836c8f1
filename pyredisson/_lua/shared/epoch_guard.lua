-- Refuses a request that a newer one of its owner has overtaken.
-- Expects  ARGV[2] epoch of the request; stored: the epoch in Redis, false if there is none
-- Defines  nothing
if stored and tonumber(stored) > tonumber(ARGV[2]) then
    return {'stale', stored}
end
