-- Splits the ids of several permits.
-- Expects  ARGV[2] ids, sixteen bytes each
-- Defines  ids
local ids = {}
for first = 1, #ARGV[2], 16 do
    ids[#ids + 1] = string.sub(ARGV[2], first, first + 15)
end
