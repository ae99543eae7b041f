/* report: records of the process that unpacks, written and read. Owns their form; reading refuses anything but it. */
#include "unpack/report.h"

void report_add(struct buf *out, const struct report *report)
{
    buf_add_varint(out, report->kind);
    buf_add_varint(out, report->number);
    buf_add_varint(out, report->more);
    buf_add_varint(out, report->path.len);
    buf_add_str(out, report->path);
    buf_add_varint(out, report->text.len);
    buf_add_str(out, report->text);
}

static bool text_cut(struct str *rest, struct str *out)
{
    uint64_t len;
    if (!str_cut_varint(rest, &len) || len > rest->len)
        return false;
    *out = str_sub(*rest, 0, (size_t)len);
    *rest = str_sub(*rest, (size_t)len, rest->len);
    return true;
}

bool report_cut(struct str *rest, struct report *out)
{
    uint64_t kind;
    struct report report = { 0 };
    if (!str_cut_varint(rest, &kind) || kind == REPORT_NONE || kind >= REPORT_KIND_COUNT ||
        !str_cut_varint(rest, &report.number) || !str_cut_varint(rest, &report.more) || !text_cut(rest, &report.path) ||
        !text_cut(rest, &report.text))
        return false;
    report.kind = (enum report_kind)kind;
    *out = report;
    return true;
}
