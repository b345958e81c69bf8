-- The dynamic page inside a server: it has the bytes of crates/page/src/lib.rs, which checks them under load.
-- The module is a function. It gets values keyed by CGI variable names, and returns the page.

local BYTES, MOST_VALUE_BYTES = 1024, 80
local HEAD = "<!DOCTYPE html>\n<html><head><title>Serverdyno dynamic page</title></head>\n<body><pre>\n"
local TAIL = "\n</pre></body></html>\n"
local VARIABLES = {
    "SERVER_SOFTWARE", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "HTTPS", "REQUEST_METHOD", "SCRIPT_NAME",
    "QUERY_STRING",
}

-- A value must not become markup or a new line.
local function harmless(value)
    return (string.gsub(string.gsub(string.sub(value, 1, MOST_VALUE_BYTES), '[<>&"]', "_"), "[^ -~]", "_"))
end

return function(values)
    local parts = {HEAD, "CARRIER=in-process\n"}
    for _, name in ipairs(VARIABLES) do
        parts[#parts + 1] = name .. "=" .. harmless(tostring(values[name] or "")) .. "\n"
    end
    local text = table.concat(parts)
    return text .. string.rep(".", BYTES - #text - #TAIL) .. TAIL
end
