-- The dynamic page inside a server: the same bytes as crates/page/src/lib.rs makes, and checked by it under load.
-- What is required gives a function: values by the names of CGI variables -> the page.

local BYTES, MOST_VALUE_BYTES = 1024, 80
local HEAD = "<!DOCTYPE html>\n<html><head><title>Serverdyno dynamic page</title></head>\n<body><pre>\n"
local TAIL = "\n</pre></body></html>\n"
local VARIABLES = {
    "SERVER_SOFTWARE", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "HTTPS", "REQUEST_METHOD", "SCRIPT_NAME",
    "QUERY_STRING",
}

-- A value must become neither markup nor another line.
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
