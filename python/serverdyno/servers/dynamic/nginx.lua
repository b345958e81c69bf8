-- The dynamic page in nginx's lua module: one interpreter per worker.

local page = require("page")
local var = ngx.var

ngx.header["Content-Type"] = "text/html; charset=us-ascii"
ngx.header["Cache-Control"] = "no-store"
ngx.header["Content-Length"] = 1024
ngx.print(page({
    SERVER_SOFTWARE = "nginx/" .. var.nginx_version,
    SERVER_NAME = var.server_addr,
    SERVER_PORT = var.server_port,
    SERVER_PROTOCOL = var.server_protocol,
    HTTPS = var.https,
    REQUEST_METHOD = var.request_method,
    SCRIPT_NAME = var.uri,
    QUERY_STRING = var.args,
}))
