-- The dynamic page in Apache's mod_lua, with LuaScope thread: one persistent interpreter per thread.

local page = dofile("{directory}/page.lua")

function handle(r)
    r.content_type = "text/html; charset=us-ascii"
    r.headers_out["Cache-Control"] = "no-store"
    r:write(page({
        SERVER_SOFTWARE = r.banner,
        SERVER_NAME = r.server_name,
        SERVER_PORT = r.port,
        SERVER_PROTOCOL = r.protocol,
        HTTPS = r.is_https and "on" or "",
        REQUEST_METHOD = r.method,
        SCRIPT_NAME = r.uri,
        QUERY_STRING = r.args,
    }))
    return apache2.OK
end
