-- Works out when a permit expires.
-- Expects  ARGV[4] lease, ms (-1: for ever); now (now)
-- Defines  never, ends: ms since the epoch
local never = 922337203685477
local ends = never
if ARGV[4] ~= '-1' then
    ends = math.min(now + tonumber(ARGV[4]), never)
end
