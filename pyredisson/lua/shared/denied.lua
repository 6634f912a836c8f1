-- Lets a reply say that the server's user may not use the list of waiting clients.
-- Expects  reply: a number, from 0; denied: false, or 1: not the key of the list, 2: not the channels of its clients
-- Defines  nothing
if denied then
    reply = -denied - 2 * reply
end
