-- Notifies the first of the waiting clients that the lock is free, and the ears ('2') that it was notified. There are no
-- ears if it was the only client on the list.
-- Expects  choose(waiting, publish): whether one was notified; unpublished; keep_ears(waiting, publish, trusted, left);
--          waiting: key; publish: PUBLISH or SPUBLISH; heard: 0; denied: false
-- Defines  nothing
if choose(waiting, publish) then
    heard = 1
    if redis.pcall('exists', waiting) == 1 and redis.pcall(publish, waiting, '2') == 0 then
        pcall(keep_ears, waiting, publish, 0)
    end
elseif unpublished then
    denied = true
end
