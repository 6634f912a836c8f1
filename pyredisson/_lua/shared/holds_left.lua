-- Works out how many holds a release leaves to the owner.
-- Expects  ARGV[3] repeat; ARGV[5] holds the client counts; held: the holds in Redis
-- Defines  left: -1 if the owner does not hold what the client counts
local left = -1
if held and (held == ARGV[5] or ARGV[5] == '0') then
    left = math.max(tonumber(ARGV[5]) - 1, 0)
elseif held and ARGV[3] == '1' and tonumber(held) == tonumber(ARGV[5]) - 1 then
    left = tonumber(held)
end
