-- Notifies the first client in the wait queue that the lock is free, and the observers that it was notified. There are
-- none if it was the only client there.
-- Expects  choose(waiting, publish): whether one was notified; unpublished; keep_observers(waiting, publish, trusted);
--          waiting: key; publish: PUBLISH or SPUBLISH; heard: 0; denied: false
-- Defines  nothing
if choose(waiting, publish) then
    heard = 1
    if redis.pcall('exists', waiting) == 1 and redis.pcall(publish, waiting, '$NOTIFIED') == 0 then
        pcall(keep_observers, waiting, publish, 0)
    end
elseif unpublished then
    denied = true
end
