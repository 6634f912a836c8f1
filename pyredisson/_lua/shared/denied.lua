-- Lets a reply say that the server's user may not publish to the clients that wait.
-- Expects  reply: a number, from 0; denied: whether that is so
-- Defines  nothing
if denied then
    reply = -1 - reply
end
