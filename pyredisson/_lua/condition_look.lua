-- Says whether one still waits for a condition, and keeps the set.
-- KEYS  1 waiters (sorted set)
-- ARGV  1 member
-- Reply 1: it waits.  0: it was notified.
redis.call('pexpire', KEYS[1], 3600000)
return redis.call('zscore', KEYS[1], ARGV[1]) and 1 or 0
