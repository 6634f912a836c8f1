-- Gives a lock that has just been acquired its time to live, or takes it back: if this user may not run PEXPIRE, no
-- lock without an end is left behind.
-- Expects  KEYS[1] lock; ARGV[4] lease, ms
-- Defines  ends: the reply of PEXPIRE
local ends = redis.pcall('pexpire', KEYS[1], ARGV[4])
if ends ~= 1 then
    redis.call('del', KEYS[1])
    return ends
end
