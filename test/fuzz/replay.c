/* replay: runs a fuzz target without libFuzzer: over each seed, then over mutations that a fixed seed determines, so
 * that a run of the tests is the same every time; then the shapes that the target wanted to see. usage: replay COUNT
 * FOLDER */
#include <dirent.h>

#include "base/rng.h"
#include "fuzz.h"

enum { SEEDS_MAX = 500, INPUT_MAX = 1 << 16 };

struct seed {
    uint8_t *bytes;
    size_t len;
};

static size_t seeds_read(const char *folder, struct seed *seeds)
{
    size_t n = 0;
    struct dirent **names;
    int found = scandir(folder, &names, NULL, alphasort); /* sorted: the same order everywhere */
    for (int i = 0; i < found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        FILE *file = names[i]->d_name[0] != '.' && n < SEEDS_MAX ? fopen(path, "rb") : NULL;
        if (file) {
            seeds[n].bytes = mem_alloc(INPUT_MAX);
            seeds[n].len = fread(seeds[n].bytes, 1, INPUT_MAX, file);
            fclose(file);
            n++;
        }
        free(names[i]);
    }
    if (found >= 0) {
        free(names);
    }
    return n;
}

/* The target gets memory of exactly its size, so that reading past the end is seen. */
static void run_one(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = mem_alloc(len);
    memcpy(exact, bytes, len);
    LLVMFuzzerTestOneInput(exact, len);
    mem_free(exact);
}

static size_t mutate(struct rng *rng, uint8_t *bytes, size_t len, const struct seed *other)
{
    static const uint8_t odd[] = { 0, 0x7f, 0x80, 0xff, '"', '\\', '{', '}', '[', ']', ':', '&', '*', '-', '%', '\n',
        ' ', '9', ',' };
    size_t at = (size_t)rng_below(rng, len + 1), n = (size_t)rng_below(rng, 9);
    switch (rng_below(rng, 5)) {
    case 0: /* flip bits */
        if (at < len) {
            bytes[at] ^= (uint8_t)(1u << rng_below(rng, 8));
        }
        return len;
    case 1: /* an odd byte */
        if (at < len) {
            bytes[at] = odd[rng_below(rng, sizeof odd)];
        }
        return len;
    case 2: /* leave out */
        n = n < len - at ? n : len - at;
        memmove(bytes + at, bytes + at + n, len - at - n);
        return len - n;
    case 3: /* say twice */
        n = n < len - at ? n : len - at;
        if (len + n > INPUT_MAX) {
            return len;
        }
        memmove(bytes + at + n, bytes + at, len - at);
        return len + n;
    default: /* go on with another seed */
        n = other->len;
        n = n < INPUT_MAX - at ? n : INPUT_MAX - at;
        memcpy(bytes + at, other->bytes, n);
        return at + n;
    }
}

/* Prints the table; false: a shape was never seen. */
static bool shapes_check(void)
{
    bool all = true;
    printf("# shapes:");
    for (const struct fuzz_shape *shape = fuzz_shapes; shape->name; shape++) {
        printf(" %s %lu", shape->name, shape->n);
        all &= shape->n > 0;
    }
    printf("\n%sok 3 - every shape was seen\n", all ? "" : "not ");
    return all;
}

int main(int argc, char **argv)
{
    static struct seed seeds[SEEDS_MAX];
    static uint8_t work[INPUT_MAX];
    uint64_t count;
    if (argc != 3 || !str_to_u64(str_of(argv[1]), &count)) {
        fprintf(stderr, "usage: replay COUNT FOLDER\n");
        return 2;
    }
    size_t n = seeds_read(argv[2], seeds);
    if (!n) {
        fprintf(stderr, "%s: no seeds\n", argv[2]);
        return 1;
    }
    printf("1..3\n");
    for (size_t i = 0; i < n; i++) {
        run_one(seeds[i].bytes, seeds[i].len);
    }
    printf("ok 1 - %zu seeds\n", n);
    fflush(stdout);
    struct rng rng;
    rng_seed(&rng, 1);
    for (uint64_t i = 0; i < count; i++) {
        const struct seed *seed = &seeds[rng_below(&rng, n)];
        size_t len = seed->len;
        memcpy(work, seed->bytes, len);
        for (uint64_t m = 1 + rng_below(&rng, 4); m > 0; m--) {
            len = mutate(&rng, work, len, &seeds[rng_below(&rng, n)]);
        }
        run_one(work, len);
    }
    printf("ok 2 - %llu mutations\n", (unsigned long long)count);
    bool all = shapes_check();
    for (size_t i = 0; i < n; i++) {
        mem_free(seeds[i].bytes);
    }
    return all ? 0 : 1;
}
