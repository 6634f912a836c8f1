-- Acquires the lock of an election as fenced_acquire does, and announces a new leader to the observers.
-- KEYS  1 lock (hash)  2 epoch of the owner  3 token (string)  4 channel of the observers
-- ARGV  1 owner  2 epoch  3 repeat: '1' if an earlier copy may have run  4 lease, ms  5 holds the client counts
--       6 token of the hold that this one joins, '' if there is none  7 '1': tokens follow the server's clock
--       8 PUBLISH or SPUBLISH
-- Reply as fenced_acquire
-- attempt: fenced_acquire
local reply = attempt()
if type(reply) == 'table' and reply[1] == 'token' then
    redis.pcall(ARGV[8], KEYS[4], ARGV[1]) -- A user who may not publish leads all the same.
end
return reply
