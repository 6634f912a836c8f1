-- Keeps the record of the owner's requests for a while. A server that is out of memory accepts PEXPIRE, even of no key,
-- and then the rest, too.
-- Expects  KEYS[2] last request of the owner
-- Defines  nothing
redis.call('pexpire', KEYS[2], '60000')
