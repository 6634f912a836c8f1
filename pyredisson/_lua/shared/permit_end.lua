-- Works out when a permit expires.
-- Expects  ARGV[4] lease, ms (-1: for ever); now (now)
-- Defines  never, ends: ms since the epoch
local never = 922337203685477
local ends = ARGV[4] == '-1' and never or math.min(now + tonumber(ARGV[4]), never)
