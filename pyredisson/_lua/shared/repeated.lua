-- Answers a repeated request with the outcome of the first copy. More copies may be on their way.
-- Expects  KEYS[2] last request of the owner; ARGV[1] number of this one; number, outcome (number_guard)
-- Defines  nothing
if number == ARGV[1] then
    redis.call('pexpire', KEYS[2], '60000')
    return tonumber(outcome)
end
