-- Notifies the waiters that the lock is free. Redis sends the message when the script ends. It comes first: a user who
-- may not publish must free nothing.
-- Expects  KEYS[3] channel; ARGV[6] PUBLISH, SPUBLISH or '' (do not publish); ARGV[7] message; reply
-- Defines  nothing
reply = 1
if ARGV[6] ~= '' then
    reply = 1 + redis.call(ARGV[6], KEYS[3], ARGV[7])
end
