-- The dynamic page in lighttpd's mod_magnet: one interpreter for this script per process.

package.path = "{directory}/?.lua"
local page = require("page")
local attribute = lighty.r.req_attr

lighty.r.resp_header["Content-Type"] = "text/html; charset=us-ascii"
lighty.r.resp_header["Cache-Control"] = "no-store"
lighty.r.resp_body:set({page({
    SERVER_SOFTWARE = "{software}",
    SERVER_NAME = attribute["request.server-addr"],
    SERVER_PORT = attribute["request.server-port"],
    SERVER_PROTOCOL = attribute["request.protocol"],
    HTTPS = attribute["uri.scheme"] == "https" and "on" or "",
    REQUEST_METHOD = attribute["request.method"],
    SCRIPT_NAME = attribute["uri.path"],
    QUERY_STRING = attribute["uri.query"],
})})
return 200
