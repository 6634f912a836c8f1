-- Refuses an owner who holds nothing if the client counts holds: they are lost.
-- Expects  ARGV[5] holds the client counts
-- Defines  nothing
if ARGV[5] ~= '0' then
    return {'lost'}
end
