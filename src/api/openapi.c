/* openapi: the OpenAPI 3.1 document, made once at start from the table of routes, the answers of answer.h and the
 * schemas of schema.def, so that no route and no member can be missing. */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

/* The members of answer.h in this document's words, each with ", " before it (schema_add drops the first one). An
 * object that is written out where it is used stands there as "@Name;" until schema_add puts it in. */
#define DOC_INTEGER "\"type\": \"integer\""
#define DOC_NUMBER "\"type\": \"number\""
#define DOC_TEXT "\"type\": \"string\""
#define DOC_TEXT_OR_NULL "\"type\": [\"string\", \"null\"]"
#define DOC_WORD DOC_TEXT
#define DOC_PLAIN DOC_TEXT
#define DOC_BOOLEAN "\"type\": \"boolean\""
#define DOC_TRUE "\"const\": true"
#define DOC_KNOWN "\"type\": [\"integer\", \"null\"]"
#define DOC_MOVETYPE DOC_TEXT ", \"enum\": [\"DC\", \"BF\", \"EM\", \"RB\"]"
#define DOC_OBJECT "\"type\": \"object\""
#define DOC_ARRAY "\"type\": \"array\""
#define DOC_REF(name) "\"$ref\": \"#/components/schemas/" #name "\""
#define DOC_TIME DOC_REF(Time)
#define DOC_STATE DOC_REF(State)
#define DOC_OUTCOME DOC_REF(Outcome)
#define DOC_ITEMS(schema) DOC_ARRAY ", \"items\": {" schema "}"
#define DOC_VALUES(schema) DOC_OBJECT ", \"additionalProperties\": {" schema "}"
#define DOC_LIST(name) DOC_ITEMS(DOC_REF(name))
#define DOC_TEXTS DOC_ITEMS(DOC_TEXT)
#define DOC_INTEGERS DOC_ITEMS(DOC_INTEGER)
#define DOC_MAP(name) DOC_VALUES(DOC_REF(name))
#define DOC_MAP_OF(name) DOC_VALUES(DOC_INSIDE(name))
#define DOC_MAP_OF_TEXT DOC_VALUES(DOC_TEXT)
#define DOC_INSIDE(name) "@" #name ";"
#define DOC_EVERY(name) DOC_ITEMS(DOC_INSIDE(name))
#define DOC_AS(type, ...) #__VA_ARGS__
#define NONE ""
#define SAYS(sentence) ", \"description\": \"" sentence "\""
#define REQUIRED(...) ", \"required\": [" #__VA_ARGS__ "]"
#define DOC(kind, ...) DOC_ROW_##kind(__VA_ARGS__)
#define DOC_ROW(name, schema, says) ", \"" #name "\": {" schema says "}"
#define DOC_ROW_FIELD(name, type, value, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_OPTIONAL(name, type, when, value, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_PART(name, type, call, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_OPTIONAL_PART(name, type, when, call, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_EACH(name, type, n, call, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_OPTIONAL_EACH(name, type, when, n, call, says) DOC_ROW(name, DOC_##type, says)
#define DOC_ROW_UNDOCUMENTED(...)
#define DOC_ROW_DOCUMENTED(name, type, says) DOC_ROW(name, DOC_##type, says)
#define DOC_MEMBERS(name, required) DOC_OBJECT required ", \"properties\": {" ANSWER_##name(DOC) "}"
static const struct schema {
    const char *name, *text;
    bool inside; /* written out where it is used */
} schemas[] = {
#define SCHEMA(name, ...) { #name, #__VA_ARGS__, false },
#include "api/schema.def"
#undef SCHEMA
#define SHARED(name, required) { #name, "{" DOC_MEMBERS(name, required) "}", false },
#define NESTED(name, required) { #name, DOC_MEMBERS(name, required), true },
    ANSWERS(SHARED, NESTED)
#undef SHARED
#undef NESTED
};
enum { SCHEMAS = sizeof schemas / sizeof schemas[0] };

static const char *inside_find(const char *name, size_t len)
{
    size_t i = 0;
    while (i < SCHEMAS && (!schemas[i].inside || strlen(schemas[i].name) != len || memcmp(schemas[i].name, name, len)))
        i++;
    ASSERT(i < SCHEMAS); /* ANSWERS lists it */
    return schemas[i].text;
}

/* schema_add: a row's text, with the objects that it names by @Name; written out. */
static void schema_add(struct buf *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '@') {
            size_t len = strcspn(c + 1, ";");
            schema_add(out, inside_find(c + 1, len));
            c += 1 + len;
            continue;
        }
        buf_add_char(out, *c);
        if (strncmp(c, "{, ", 3) == 0)
            c += 2;
    }
}

static void schema_put(struct json *json, const char *name, const char *schema)
{
    struct buf text;
    buf_init(&text, 64 * KIB);
    schema_add(&text, schema);
    json_key(json, name);
    json_raw(json, buf_str(&text));
    buf_release(&text);
}

/* What a posted task can say: the rows of text/task_doc.def in this document's words. */
#define SCHEMA_OF(name) "\"$ref\":\"#/components/schemas/" name "\""
#define ANY "\"title\":\"JSON\""
#define TEXT "\"type\":\"string\""
#define WORD TEXT
#define BOOLEAN "\"type\":\"boolean\""
#define TEXTS "\"type\":\"array\",\"items\":{" TEXT "}"
#define VALUES "\"type\":\"object\",\"additionalProperties\":{" TEXT "}"
#define DURATION SCHEMA_OF("Duration")
#define SIZE SCHEMA_OF("Size")
#define NAME SCHEMA_OF("Name")
#define TIME "\"type\":\"string\",\"format\":\"date-time\""
#define REFS "\"type\":\"array\",\"items\":{" SCHEMA_OF("TaskRef") "}"
#define TASKS "\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\"]}"
#define MINUTES ""
#define ON ""
static const struct {
    const char *name;
    enum { BOTH, QUEUE, WORKFLOW, IDLE } where;
    const char *schema, *sentence;
} task_keys[] = {
#define KEY(name, where, flags, form, schema, sentence) { #name, where, schema, sentence },
#include "text/task_doc.def"
#undef KEY
};

static void schema_new_task(struct json *json)
{
    struct buf text;
    buf_init(&text, 64 * KIB);
    buf_add_z(&text, "{\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":false,\"properties\":{");
    const char *comma = "";
    for (size_t i = 0; i < sizeof task_keys / sizeof task_keys[0]; i++) {
        if (task_keys[i].where == WORKFLOW)
            continue;
        const char *idle = strcmp(task_keys[i].schema, BOOLEAN) == 0 ? "\"const\":false" : "\"const\":\"none\"";
        buf_addf(&text, "%s\"%s\":{\"description\":\"%s\",%s}", comma, task_keys[i].name, task_keys[i].sentence,
            task_keys[i].where == IDLE ? idle : task_keys[i].schema);
        comma = ",";
    }
    buf_add_z(&text, "}}");
    json_key(json, "NewTask");
    json_raw(json, buf_str(&text));
    buf_release(&text);
}

static const struct {
    const char *name, *text;
} parameters[] = {
    { "attempt", "{\"type\":\"integer\",\"minimum\":1}" },
    { "cursor", "{\"type\":\"string\"}" },
    { "fence", "{\"type\":\"string\"}" },
    { "last", "{\"type\":\"integer\",\"enum\":[0,1]}" },
    { "follow", "{\"type\":\"integer\",\"enum\":[0,1]}" },
    { "notify", "{\"type\":\"integer\",\"enum\":[0,1]}" },
    { "limit", "{\"type\":\"integer\",\"minimum\":1}" },
    { "offset", "{\"type\":\"integer\",\"minimum\":0}" },
    { "rev", "{\"type\":\"integer\",\"minimum\":1}" },
    { "since", "{\"type\":\"integer\",\"minimum\":0}" },
    { "state", "{\"type\":\"string\",\"pattern\":\"^[QSPXDFTA,]*$\"}" },
    { "tail", "{\"type\":\"integer\",\"minimum\":0}" },
};

static const char *media_of(const char *schema)
{
    return strcmp(schema, "Bytes") == 0   ? "application/octet-stream"
           : strcmp(schema, "Text") == 0  ? "text/plain"
           : strcmp(schema, "Event") == 0 ? "application/x-ndjson"
                                          : "application/json";
}

static void content(struct json *json, const char *media, const char *schema)
{
    struct buf text;
    buf_init(&text, KIB);
    buf_addf(&text, "{\"%s\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}", media, schema);
    json_key(json, "content");
    json_raw(json, buf_str(&text));
    buf_release(&text);
}

static void parameter(struct json *json, struct str name, const char *in, bool required)
{
    const char *schema = "{\"type\":\"string\"}";
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        if (str_eqz(name, parameters[i].name))
            schema = parameters[i].text;
    struct buf text;
    buf_init(&text, KIB);
    buf_addf(&text, "{\"name\":\"%.*s\",\"in\":\"%s\",\"required\":%s,\"schema\":%s}", STR_ARG(name), in,
        required ? "true" : "false", schema);
    json_raw(json, buf_str(&text));
    buf_release(&text);
}

/* path_parameter: the next one of *path, which moves on behind it; empty: no more. */
static struct str path_parameter(const char **path)
{
    const char *open = strchr(*path, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
    if (close == NULL)
        return (struct str){ 0 };
    *path = close;
    return (struct str){ open + 1, (size_t)(close - open) - 1 };
}

static void route_parameters(struct json *json, const struct route *route)
{
    const char *path = route->path;
    struct str in_path = path_parameter(&path), rest = str_of(route->params), name;
    bool creates = strcmp(route->method, "POST") == 0 && (route->status == 201 || route->status == 202);
    bool reads = strcmp(route->method, "GET") == 0;
    if (in_path.len == 0 && rest.len == 0 && !creates && !reads && route->scope == SCOPE_OPEN)
        return;
    json_key(json, "parameters");
    json_array_begin(json);
    for (; in_path.len > 0; in_path = path_parameter(&path))
        parameter(json, in_path, "path", true);
    while (str_cut(&rest, ' ', &name))
        parameter(json, name, "query", str_eqz(name, "fence"));
    if (reads)
        parameter(json, STR("at_least"), "query", false);
    if (route->scope != SCOPE_OPEN)
        parameter(json, STR("tenant"), "query", false);
    if (creates)
        parameter(json, STR("Idempotency-Key"), "header", false);
    json_array_end(json);
}

static void route_responses(struct json *json, const struct route *route)
{
    json_key(json, "responses");
    json_object_begin(json);
    json_key(json, i64_format(route->status).z);
    json_object_begin(json);
    json_put_z(json, "description", route->summary);
    if (route->response != NULL)
        content(json, media_of(route->response), route->response);
    json_object_end(json);
    json_key(json, "default");
    json_object_begin(json);
    json_put_z(json, "description", "A problem (RFC 9457)");
    content(json, "application/problem+json", "Problem");
    json_object_end(json);
    json_object_end(json);
}

static void operation(struct json *json, const struct route *route)
{
    struct buf id;
    buf_init(&id, 200);
    const char *scope = scope_text(route->scope == SCOPE_SITE ? (unsigned)SCOPE_ADMIN : route->scope);
    bool post = strcmp(route->method, "POST") == 0;
    json_key(json, post ? "post" : strcmp(route->method, "GET") == 0 ? "get" : "delete");
    json_object_begin(json);
    for (const char *c = route->path + 1; *c != '\0'; c++)
        buf_add_char(&id, (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ? *c : '_');
    json_put_str(json, "operationId", (buf_add_char(&id, '_'), buf_add_z(&id, route->method), buf_str(&id)));
    json_put_z(json, "summary", route->summary);
    if (scope != NULL)
        json_put_z(json, "x-weir-scope", scope);
    json_key(json, "security");
    json_raw(json, scope == NULL ? STR("[]") : STR("[{\"token\":[]}]"));
    route_parameters(json, route);
    if (route->request != NULL) {
        json_key(json, "requestBody");
        json_object_begin(json);
        content(json, media_of(route->request), route->request);
        json_object_end(json);
    }
    route_responses(json, route);
    json_object_end(json);
    buf_release(&id);
}

static bool path_seen(size_t before, const char *path)
{
    for (size_t i = 0; i < before; i++)
        if (strcmp(routes[i].path, path) == 0)
            return true;
    return false;
}

static void paths(struct json *json)
{
    json_key(json, "paths");
    json_object_begin(json);
    for (size_t i = 0; i < n_routes; i++) {
        if (path_seen(i, routes[i].path))
            continue;
        json_key(json, routes[i].path);
        json_object_begin(json);
        for (size_t k = i; k < n_routes; k++)
            if (strcmp(routes[k].path, routes[i].path) == 0)
                operation(json, &routes[k]);
        json_object_end(json);
    }
    json_object_end(json);
}

void openapi_build(struct buf *out, const char *version)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    json_put_z(&json, "openapi", "3.1.0");
    json_key(&json, "info");
    json_object_begin(&json);
    json_put_z(&json, "title", "Weir");
    json_put_z(&json, "version", version);
    json_put_z(&json, "summary", "A durable queue of tasks with dependencies, run by executors");
    json_object_end(&json);
    paths(&json);
    json_key(&json, "components");
    json_object_begin(&json);
    json_key(&json, "securitySchemes");
    json_raw(&json, STR("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}"));
    json_key(&json, "schemas");
    json_object_begin(&json);
    for (size_t i = 0; i < SCHEMAS; i++)
        if (!schemas[i].inside)
            schema_put(&json, schemas[i].name, schemas[i].text);
    schema_new_task(&json);
    json_object_end(&json);
    json_object_end(&json);
    json_object_end(&json);
    ASSERT(!out->full);
}

bool serve_openapi_get(struct call *call)
{
    return call_answer_as(call, 200, "application/json", buf_str(&call->api->openapi), NULL);
}
