-- Records the outcome of the request, for late copies of it, and replies.
-- Expects  KEYS[2] last request of the owner; ARGV[1] number of this one; reply: a number
-- Defines  nothing
redis.call('set', KEYS[2], ARGV[1] .. ' ' .. reply, 'px', '60000')
return tonumber(reply)
