-- Publishes the message of a lock that becomes free. Messages come first (Redis sends them when the script ends): a user
-- who may not publish must free nothing.
-- Expects  KEYS[3] channel; publish: PUBLISH, SPUBLISH or ''; message; heard: how many clients were notified
-- Defines  nothing
if publish ~= '' then
    heard = heard + redis.call(publish, KEYS[3], message)
end
