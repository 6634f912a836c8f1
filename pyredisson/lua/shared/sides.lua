-- Notifies the waiting clients that can acquire a read-write lock: all readers, if a reader has waited longest; else the
-- writer that has. Writers stand behind readers on the list, with 1e14 added to the time since which they wait.
-- Expects  choose(waiting, publish, from, to): whether one was notified; reads: whether no writer can acquire it
-- Defines  choose_one; choose(waiting, publish): whether any was notified
local choose_one = choose
local function choose(waiting, publish)
    local function first(from, to)
        return tonumber(redis.pcall('zrangebyscore', waiting, from, to, 'withscores', 'limit', 0, 1)[2]) or math.huge
    end
    local function choose_readers()
        local notified = false
        while choose_one(waiting, publish, '-inf', '(1e14') do
            notified = true
        end
        return notified
    end
    if not reads and first('1e14', '(1e15') - 1e14 < first('-inf', '(1e14') then
        return choose_one(waiting, publish, '1e14', '(1e15') or choose_readers()
    end
    return choose_readers() or not reads and choose_one(waiting, publish, '1e14', '(1e15')
end
