-- Stores the epoch of a release or a forced unlock, after everything else. Late copies of older requests are refused
-- from here on.
-- Expects  KEYS[2] epoch of the owner; ARGV[2] epoch of the request; stored: the epoch in Redis; lease: ms
-- Defines  nothing
if ARGV[2] ~= '0' and stored ~= ARGV[2] then
    -- A server that is out of memory accepts PEXPIRE, even of no key, and then SET, too.
    redis.call('pexpire', KEYS[2], 60000)
    redis.call('set', KEYS[2], ARGV[2], 'px', math.max(60000, lease))
end
