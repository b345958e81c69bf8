-- For wrk: each connection pauses between an answer and the next request. `wrk -s think.lua URL -- MS`
local think_ms

function init(args)
    think_ms = tonumber(args[1])
end

function delay()
    return think_ms
end
