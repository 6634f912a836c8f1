-- Notifies the waiting clients that can acquire a read-write lock: all readers, if a reader has waited longest; else the
-- writer that has. Writers stand behind readers in the queue, with $WRITERS added to the time since which they wait.
-- Expects  choose(waiting, publish, from, to): whether one was notified; reads: whether no writer can acquire it
-- Defines  choose_one; choose(waiting, publish): whether any was notified
local choose_one = choose
local function choose(waiting, publish)
    local function first(from, to)
        return tonumber(redis.pcall('zrangebyscore', waiting, from, to, 'withscores', 'limit', 0, 1)[2]) or math.huge
    end
    local function choose_readers()
        local notified = false
        while choose_one(waiting, publish, '-inf', '($WRITERS') do
            notified = true
        end
        return notified
    end
    if not reads and first('$WRITERS', '($OBSERVERS') - $WRITERS < first('-inf', '($WRITERS') then
        return choose_one(waiting, publish, '$WRITERS', '($OBSERVERS') or choose_readers()
    end
    return choose_readers() or not reads and choose_one(waiting, publish, '$WRITERS', '($OBSERVERS')
end
