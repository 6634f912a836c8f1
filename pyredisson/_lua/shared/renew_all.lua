-- Renews each of KEYS, and replies which are renewed: 1, or 0 for one that its owner does not hold.
-- Expects  renew(i, key): 1 or 0
-- Defines  renewed
local renewed = {}
for i, key in ipairs(KEYS) do
    renewed[i] = renew(i, key)
end
return renewed
