/* problem: errors as RFC 9457 problem+json: type, title, status, detail, code, and every fault of a bad document. */
#include "api/call.h"

static void item_render(struct json *json, const struct err_item *item)
{
    json_object_begin(json);
    json_put_str(json, "path", item->path);
    if (item->file.len > 0)
        json_put_str(json, "file", item->file);
    if (item->line > 0) {
        json_put_i64(json, "line", item->line);
        json_put_i64(json, "column", item->column);
    }
    json_put_str(json, "message", item->message);
    if (item->suggestion.len > 0)
        json_put_str(json, "suggestion", item->suggestion);
    json_object_end(json);
}

void problem_render(struct buf *out, const struct err *err)
{
    buf_reset(out);
    struct json json = json_to(out);
    json_object_begin(&json);
    json_key(&json, "type");
    struct buf text;
    buf_init(&text, 80);
    buf_addf(&text, "urn:weir:error:%s", err_name(err->code));
    json_str(&json, buf_str(&text));
    buf_release(&text);
    json_put_z(&json, "title", err_title(err->code));
    json_put_i64(&json, "status", err_http(err->code));
    json_put_z(&json, "detail", err->text[0] != '\0' ? err->text : err_title(err->code));
    json_put_z(&json, "code", err_name(err->code));
    if (err->code == ERR_log_gap)
        json_put_i64(&json, "expected", err->expected);
    if (err->n_items > 0) {
        json_key(&json, "errors");
        json_array_begin(&json);
        for (size_t i = 0; i < err->n_items; i++)
            item_render(&json, &err->items[i]);
        json_array_end(&json);
    }
    json_object_end(&json);
}
