-- Reads a key that may be of another type: false then. Any other error is raised, as that a user may not read it.
-- Expects  nothing
-- Defines  read_typed(command, key, ...): the reply
local function read_typed(...)
    local reply = redis.pcall(...)
    if type(reply) ~= 'table' then
        return reply
    end
    return not string.find(reply.err, 'WRONGTYPE', 1, true) and redis.call(...)
end
