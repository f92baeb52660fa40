/* SPDX-License-Identifier: MIT
 *
 * cutout.c: flood fills over pictures, breadth first in reading order: from the border for a white backdrop, from every unseen pixel for
 * the parts of a matte, from all parts at once for the soft pixels around them. Counts are integers, so results do not depend on anything
 * but the pixels.
 */
#include "formats/cutout.h"

#include "formats/image_codecs.h"

#define SOLID          128 /* alpha of a pixel that belongs to the matte */
#define SOFT_LOW       26  /* a tenth .. */
#define SOFT_HIGH      229 /* .. to nine tenths of 255 */
#define LARGE_PART     10  /* a large part has at least 1 / LARGE_PART of the largest one's pixels */
#define PIXELS_PER_POLL 65536

/* What a pixel is to a flood. */
enum { CLOSED, SOFT, OPEN, SEEN, KEPT };

typedef struct flood {
    espalier_context *ctx;
    uint32_t width, height;
    size_t count;
    uint8_t *state;  /* one for each pixel */
    uint32_t *queue; /* pixels in the order in which they were reached; each at most once in a fill */
    size_t filled;
    bool corners; /* pixels that touch by a corner hang together */
} flood;

static espalier_status flood_begin(espalier_context *ctx, flood *f, const espalier_image *image, bool corners)
{
    *f = (flood){.ctx = ctx, .width = image->width, .height = image->height, .corners = corners};
    if (!esi_mul_size(&f->count, image->width, image->height) || f->count > UINT32_MAX)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "matte: %u x %u pixels are too many to look at", (unsigned)image->width,
                        (unsigned)image->height);
    f->state = esi_alloc(ctx, f->count, 1, "matte pixels");
    f->queue = esi_alloc(ctx, f->count, sizeof *f->queue, "matte pixels");
    return f->state && f->queue ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static void flood_end(flood *f)
{
    esi_free(f->ctx, f->queue);
    esi_free(f->ctx, f->state);
}

static void reach(flood *f, size_t pixel, uint8_t from, uint8_t to)
{
    if (f->state[pixel] != from) return;
    f->state[pixel] = to;
    f->queue[f->filled++] = (uint32_t)pixel;
}

static void reach_row(flood *f, size_t row, size_t x, uint8_t from, uint8_t to, bool middle, bool sides)
{
    if (sides && x > 0) reach(f, row + x - 1, from, to);
    if (middle) reach(f, row + x, from, to);
    if (sides && x + 1 < f->width) reach(f, row + x + 1, from, to);
}

/* Everything in state `from` that hangs on what is in the queue takes over the state of the pixel that it was reached from. */
static espalier_status spread(flood *f, uint8_t from)
{
    for (size_t next = 0; next < f->filled; next++) {
        const size_t pixel = f->queue[next], y = pixel / f->width, x = pixel % f->width;
        const uint8_t to = f->state[pixel];

        if (next % PIXELS_PER_POLL == 0 && esi_check_cancel(f->ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
        if (y > 0) reach_row(f, (y - 1) * f->width, x, from, to, true, f->corners);
        reach_row(f, y * f->width, x, from, to, false, true);
        if (y + 1 < f->height) reach_row(f, (y + 1) * f->width, x, from, to, true, f->corners);
    }
    return ESPALIER_OK;
}

/* One part, from one of its pixels; f->filled is its size. */
static espalier_status fill_part(flood *f, size_t pixel, uint8_t from, uint8_t to)
{
    f->filled = 0;
    reach(f, pixel, from, to);
    return spread(f, from);
}

static bool on_border(uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    return x == 0 || y == 0 || x == width - 1 || y == height - 1;
}

/* -------------------------------------------------------------- threshold */

static bool is_white(const uint8_t *pixel)
{
    return ESI_MIN(ESI_MIN(pixel[0], pixel[1]), pixel[2]) >= ESI_CUTOUT_WHITE;
}

espalier_status esi_cutout_threshold(espalier_context *ctx, espalier_image *mask, const espalier_image *rgb, double *border_white)
{
    uint64_t border = 0, white = 0;
    flood f;

    memset(mask, 0, sizeof *mask);
    espalier_status st = flood_begin(ctx, &f, rgb, false);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < f.count; i++) f.state[i] = is_white(rgb->pixels + i * rgb->channels) ? OPEN : CLOSED;
    for (uint32_t y = 0; y < f.height; y++) {
        for (uint32_t x = 0; x < f.width; x++) {
            if (!on_border(x, y, f.width, f.height)) continue;
            border++;
            white += f.state[(size_t)y * f.width + x] == OPEN;
            reach(&f, (size_t)y * f.width + x, OPEN, SEEN);
        }
    }
    st = spread(&f, OPEN);
    if (st == ESPALIER_OK) st = esi_image_new(ctx, mask, f.width, f.height, 1);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < f.count; i++) mask->pixels[i] = f.state[i] == SEEN ? 0 : 255;
    if (border_white) *border_white = (double)white / (double)border;
done:
    flood_end(&f);
    return st;
}

/* ------------------------------------------------------------------ parts */

/* Sizes of all parts, in the order of their first pixels. */
typedef struct part_list {
    uint32_t *sizes;
    size_t count, capacity;
    uint32_t largest;     /* pixels */
    size_t largest_first; /* its first pixel */
    uint64_t pixels;      /* of all parts */
} part_list;

static espalier_status add_part(espalier_context *ctx, part_list *list, uint32_t size, size_t first)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        uint32_t *sizes = esi_realloc(ctx, list->sizes, capacity, sizeof *sizes, "matte parts");
        if (!sizes) return ESPALIER_ERR_RESOURCE;
        list->sizes = sizes;
        list->capacity = capacity;
    }
    list->sizes[list->count++] = size;
    list->pixels += size;
    if (size > list->largest) {
        list->largest = size;
        list->largest_first = first;
    }
    return ESPALIER_OK;
}

static uint8_t alpha_state(uint8_t alpha)
{
    return alpha >= SOLID ? OPEN : alpha > 0 ? SOFT : CLOSED;
}

/* Leaves every pixel of a part SEEN. */
static espalier_status find_parts(flood *f, part_list *list, const espalier_image *rgba)
{
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; i < f->count; i++) f->state[i] = alpha_state(rgba->pixels[4 * i + 3]);
    for (size_t i = 0; st == ESPALIER_OK && i < f->count; i++) {
        if (f->state[i] != OPEN) continue;
        st = fill_part(f, i, OPEN, SEEN);
        if (st == ESPALIER_OK) st = add_part(f->ctx, list, (uint32_t)f->filled, i);
    }
    return st;
}

static espalier_status begin_parts(espalier_context *ctx, flood *f, part_list *list, const espalier_image *rgba)
{
    espalier_status st = flood_begin(ctx, f, rgba, true);
    return st == ESPALIER_OK ? find_parts(f, list, rgba) : st;
}

static void end_parts(flood *f, part_list *list)
{
    esi_free(f->ctx, list->sizes);
    flood_end(f);
}

espalier_status esi_cutout_keep_largest(espalier_context *ctx, espalier_image *rgba, esi_cutout_dropped *dropped)
{
    part_list list = {0};
    flood f;

    memset(dropped, 0, sizeof *dropped);
    espalier_status st = begin_parts(ctx, &f, &list, rgba);
    if (st != ESPALIER_OK || list.count == 0) goto done;
    st = fill_part(&f, list.largest_first, SEEN, KEPT);
    if (st != ESPALIER_OK) goto done;
    f.filled = 0;
    for (size_t i = 0; i < f.count; i++)
        if (f.state[i] == SEEN || f.state[i] == KEPT) f.queue[f.filled++] = (uint32_t)i;
    st = spread(&f, SOFT);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < f.count; i++)
        if (f.state[i] != KEPT) rgba->pixels[4 * i + 3] = 0;
    dropped->parts = list.count - 1;
    dropped->share = (double)(list.pixels - list.largest) / (double)list.pixels;
done:
    end_parts(&f, &list);
    return st;
}

/* ---------------------------------------------------------------- numbers */

/* Pixels of the matte among those looked at. */
typedef struct tally {
    uint64_t solid, all;
} tally;

static void count_pixel(tally *t, bool solid)
{
    t->solid += solid;
    t->all++;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void count_alpha(esi_cutout_stats *out, const espalier_image *rgba)
{
    const uint32_t w = rgba->width, h = rgba->height;
    tally frame = {0}, border = {0}, centre = {0};
    uint64_t soft = 0, visible = 0;

    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) {
            const uint8_t alpha = rgba->pixels[((size_t)y * w + x) * 4 + 3];
            const bool solid = alpha >= SOLID;
            count_pixel(&frame, solid);
            if (on_border(x, y, w, h)) count_pixel(&border, solid);
            if (x >= w / 4 && x < w - w / 4 && y >= h / 4 && y < h - h / 4) count_pixel(&centre, solid);
            visible += alpha >= SOFT_LOW;
            soft += alpha >= SOFT_LOW && alpha <= SOFT_HIGH;
        }
    }
    out->coverage = share(frame.solid, frame.all);
    out->border = share(border.solid, border.all);
    out->centre = share(centre.solid, centre.all);
    out->soft = share(soft, visible);
}

espalier_status esi_cutout_measure(espalier_context *ctx, esi_cutout_stats *out, const espalier_image *rgba)
{
    part_list list = {0};
    flood f;

    memset(out, 0, sizeof *out);
    count_alpha(out, rgba);
    espalier_status st = begin_parts(ctx, &f, &list, rgba);
    if (st == ESPALIER_OK) {
        out->parts = list.count;
        for (size_t i = 0; i < list.count; i++) out->large_parts += (uint64_t)list.sizes[i] * LARGE_PART >= list.largest;
        out->largest_part = share(list.largest, list.pixels);
    } else {
        memset(out, 0, sizeof *out);
    }
    end_parts(&f, &list);
    return st;
}
