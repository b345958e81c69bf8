-- For wrk: each connection pauses for MS milliseconds between a response and the next request.
-- Run `wrk -s think.lua URL -- MS`.
local think_ms

function init(args)
    think_ms = tonumber(args[1])
end

function delay()
    return think_ms
end
