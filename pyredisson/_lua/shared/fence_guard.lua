-- Refuses a write if a greater fencing token has been there before. The tokens are compared as text: a number in Lua is
-- exact only up to 2^53.
-- Expects  ARGV[1] token; seen: the greatest token so far
-- Defines  nothing
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then
    return seen
end
