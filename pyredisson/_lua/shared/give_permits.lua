-- Makes permits available and notifies the waiters. Redis sends the message when the script ends. It comes first, so that
-- a user who may not publish changes nothing. A server that is out of memory accepts PEXPIRE, even of no key, and then
-- INCRBY, too.
-- Expects  KEYS[1] semaphore; KEYS[2] last request of the owner; KEYS[3] channel; ARGV[3] PUBLISH or SPUBLISH;
--          waiting: key; given: how many permits; available: those there are, nil if none were set;
--          hand_out(waiting, publish, available, message)
-- Defines  total: the permits available then; added
local total = (available or 0) + tonumber(given)
if tonumber(given) > 0 then
    hand_out(waiting, ARGV[3], total, '$NOTIFIED')
end
redis.call(ARGV[3], KEYS[3], string.format('%.0f', total))
local added = type(redis.pcall('incrby', KEYS[1], given)) ~= 'table'
    or redis.call('pexpire', KEYS[2], '60000') and redis.call('incrby', KEYS[1], given)
