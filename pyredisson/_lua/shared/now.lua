-- Reads the server's clock.
-- Expects  nothing
-- Defines  clock; now: ms since the epoch
local clock = redis.call('time')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
