-- Works out when a permit expires.
-- Expects  ARGV[4] lease, ms (-1: for ever); now (now)
-- Defines  never, ends: ms since the epoch; score: ends as text
local never = 922337203685477
local ends = ARGV[4] == '-1' and never or math.min(now + tonumber(ARGV[4]), never)
local score = ends < never and string.format('%.0f', ends) or '922337203685477'
