/* The dynamic page as a native module of Apache httpd, the counterpart of an ISAPI extension. The page has the bytes
 * of crates/page/src/lib.rs, which checks them under load. Each start of the server builds the module with `apxs -c`.
 *
 * SetHandler dyno-page. Only GET and HEAD are answered. The environment is not read. */

#include "httpd.h" /* the other headers need this one */
#include "apr_strings.h"
#include "http_config.h"
#include "http_core.h"
#include "http_protocol.h"
#include "http_ssl.h"

#include <string.h>

#define PAGE_BYTES 1024
#define MOST_VALUE_BYTES 80
#define HANDLER "dyno-page"

static const char HEAD[] =
    "<!DOCTYPE html>\n<html><head><title>Serverdyno dynamic page</title></head>\n<body><pre>\n";
static const char TAIL[] = "\n</pre></body></html>\n";

typedef struct {
    char bytes[PAGE_BYTES];
    size_t length;
} page_text;

/* The longest nine lines of names and values leave room for the tail, so nothing is truncated here. */
static void add(page_text *page, const char *text, size_t length)
{
    size_t room = PAGE_BYTES - (sizeof TAIL - 1) - page->length;
    if (length > room)
        length = room;
    memcpy(page->bytes + page->length, text, length);
    page->length += length;
}

/* A value must not become markup or a new line. */
static void add_line(page_text *page, const char *name, const char *value)
{
    char harmless[MOST_VALUE_BYTES];
    size_t length = 0;
    for (; value != NULL && value[length] != '\0' && length < MOST_VALUE_BYTES; length++) {
        char byte = value[length];
        harmless[length] = (byte < ' ' || byte > '~' || strchr("<>&\"", byte) != NULL) ? '_' : byte;
    }
    add(page, name, strlen(name));
    add(page, "=", 1);
    add(page, harmless, length);
    add(page, "\n", 1);
}

static int answer(request_rec *request)
{
    page_text page = {.length = 0};
    if (request->handler == NULL || strcmp(request->handler, HANDLER) != 0)
        return DECLINED;
    request->allowed |= AP_METHOD_BIT << M_GET;
    if (request->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    add(&page, HEAD, sizeof HEAD - 1);
    add_line(&page, "CARRIER", "native");
    add_line(&page, "SERVER_SOFTWARE", ap_get_server_banner());
    add_line(&page, "SERVER_NAME", ap_get_server_name(request));
    add_line(&page, "SERVER_PORT", apr_itoa(request->pool, ap_get_server_port(request)));
    add_line(&page, "SERVER_PROTOCOL", request->protocol);
    add_line(&page, "HTTPS", ap_ssl_conn_is_ssl(request->connection) ? "on" : "");
    add_line(&page, "REQUEST_METHOD", request->method);
    add_line(&page, "SCRIPT_NAME", request->uri);
    add_line(&page, "QUERY_STRING", request->args);
    memset(page.bytes + page.length, '.', PAGE_BYTES - (sizeof TAIL - 1) - page.length);
    memcpy(page.bytes + PAGE_BYTES - (sizeof TAIL - 1), TAIL, sizeof TAIL - 1);
    ap_set_content_type(request, "text/html; charset=us-ascii");
    ap_set_content_length(request, PAGE_BYTES);
    apr_table_setn(request->headers_out, "Cache-Control", "no-store");
    if (!request->header_only)
        ap_rwrite(page.bytes, PAGE_BYTES, request);
    return OK;
}

static void hooks(apr_pool_t *pool)
{
    (void)pool;
    ap_hook_handler(answer, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(dyno_page) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks, 0};
