-- Notifies those who have waited longest for a condition, and takes them out of the set: who is no longer in it was
-- notified. One whose client does not receive the message is passed over as long as others do. It may be about to
-- connect: if it has begun to wait of late, it counts as notified, and finds out by itself. If not, its client is gone.
-- Expects  KEYS[3] waiters; ARGV[2] PUBLISH or SPUBLISH; ARGV[3] for how long a waiter may be silent, us; wanted
-- Defines  woken; silent: members
local woken, silent = 0, {}
while woken < wanted do
    local member, since = unpack(redis.call('zrange', KEYS[3], #silent, #silent, 'withscores'))
    if not member then
        break
    end
    local clock = redis.call('time')
    local heard = redis.call(ARGV[2], KEYS[3] .. ':' .. string.match(member, '^[^:]*'), member) > 0
    if heard or tonumber(clock[1]) * 1000000 + tonumber(clock[2]) - tonumber(since) > tonumber(ARGV[3]) then
        redis.call('zrem', KEYS[3], member)
        woken = woken + (heard and 1 or 0)
    else
        silent[#silent + 1] = member
    end
end
for _, member in ipairs(silent) do
    woken = woken + (woken < wanted and redis.call('zrem', KEYS[3], member) or 0)
end
