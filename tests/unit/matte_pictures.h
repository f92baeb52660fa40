/* SPDX-License-Identifier: MIT
 *
 * matte_pictures.h: pictures with known mattes, drawn in integers, and a runtime that keeps what is said.
 */
#ifndef MATTE_PICTURES_H
#define MATTE_PICTURES_H

#include "support.h"

#include <espalier/espalier.h>

#define MAX_LINES 64

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    int warnings, notices;
    char line[MAX_LINES][1200]; /* warnings and notices in the order in which they came */
    int lines;
} fixture;

static inline void keep_line(void *user, espalier_log_level level, const char *line)
{
    fixture *f = user;
    if (level != ESPALIER_LOG_WARNING && level != ESPALIER_LOG_INFO) return;
    if (level == ESPALIER_LOG_WARNING)
        f->warnings++;
    else
        f->notices++;
    if (f->lines < MAX_LINES) snprintf(f->line[f->lines++], sizeof f->line[0], "%s", line);
}

static inline void forget_lines(fixture *f)
{
    f->lines = f->warnings = f->notices = 0;
}

static inline bool was_said(const fixture *f, const char *text)
{
    for (int i = 0; i < f->lines; i++)
        if (strstr(f->line[i], text)) return true;
    return false;
}

#define SAID(text)                                                                                                                         \
    do {                                                                                                                                   \
        if (!was_said(f, text)) fail_msg("nobody said \"%s\", but \"%s\"", text, f->lines ? f->line[f->lines - 1] : "nothing");            \
    } while (0)

static inline fixture *open_fixture(int threads)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options options = espalier_runtime_options_default();
    assert_non_null(f);
    options.threads = threads;
    options.allocator = (espalier_allocator){&f->memory, test_allocate, test_release};
    options.log = keep_line;
    options.log_user = f;
    assert_int_equal(espalier_runtime_create(&f->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    return f;
}

/* Nothing may be left. */
static inline void close_fixture(fixture *f)
{
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
    assert_int_equal(atomic_load(&f->memory.live_bytes), 0);
    free(f);
}

static inline int fixture_setup(void **state)
{
    *state = open_fixture(2);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    close_fixture(*state);
    return 0;
}

/* ------------------------------------------------------------- drawing */

typedef struct rgba {
    uint8_t r, g, b, a;
} rgba;
typedef rgba (*paint_fn)(int x, int y);

static inline espalier_image draw(fixture *f, uint32_t width, uint32_t height, uint32_t channels, paint_fn paint)
{
    espalier_image image;
    assert_int_equal(espalier_image_create(f->ctx, &image, width, height, channels), ESPALIER_OK);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            const rgba p = paint((int)x, (int)y);
            memcpy(image.pixels + ((size_t)y * width + x) * channels, &p, channels);
        }
    }
    return image;
}

static inline bool in_box(int x, int y, int x0, int y0, int x1, int y1)
{
    return x >= x0 && x < x1 && y >= y0 && y < y1;
}

/* Centre and radius in half pixels, so that a disc may sit between pixels. */
static inline bool in_disc(int x, int y, int cx, int cy, int radius)
{
    const int dx = 2 * x + 1 - cx, dy = 2 * y + 1 - cy;
    return dx * dx + dy * dy <= radius * radius;
}

#endif
