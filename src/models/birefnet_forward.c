/* SPDX-License-Identifier: MIT
 *
 * birefnet_forward.c: BiRefNet's forward pass. The backbone sees the picture at full and at half size; its four levels, each with both
 * sizes side by side, meet in the coarsest one; decoder blocks climb back up, each adding the level's own map and the picture's tiles. All
 * resizing is bilinear with aligned corners.
 */
#include "models/birefnet.h"

#define COARSEST     (ESI_BIREFNET_LEVELS - 1)
#define PICTURE_ROWS 32768 /* of the last step, at the picture's size */

typedef struct birefnet_pass {
    espalier_context *ctx;
    const esi_birefnet *model;
    esi_map picture;                    /* [H * W, 3] */
    esi_map level[ESI_BIREFNET_LEVELS]; /* [full size's channels, half size's channels] */
    esi_map coarse;                     /* all levels at the coarsest grid */
} birefnet_pass;

static espalier_status resize(const birefnet_pass *p, esi_tensor y, const esi_map *x, esi_grid grid)
{
    return esi_map_resize(p->ctx, y, x, grid, true);
}

/* ------------------------------------------------------------------ encoder */

static espalier_status run_backbone_full(birefnet_pass *p)
{
    espalier_status st = esi_swin_forward(p->ctx, &p->model->backbone, &p->picture, p->level, 2);

    for (int i = 0; st == ESPALIER_OK && i < ESI_SWIN_STAGES; i++)
        esi_tap(p->ctx, esi_cols(p->level[i].rows, 0, p->level[i].rows.cols / 2), "bb%d", i);
    return st;
}

static espalier_status run_backbone_half(birefnet_pass *p)
{
    esi_scope scope = esi_scope_begin(p->ctx);
    esi_map half, small[ESI_SWIN_STAGES];
    espalier_status st = esi_map_new(p->ctx, &half, (esi_grid){p->picture.grid.height / 2, p->picture.grid.width / 2}, 3);

    if (st == ESPALIER_OK) st = resize(p, half.rows, &p->picture, half.grid);
    if (st == ESPALIER_OK) st = esi_swin_forward(p->ctx, &p->model->backbone, &half, small, 1);
    for (int i = 0; st == ESPALIER_OK && i < ESI_SWIN_STAGES; i++) {
        const int64_t channels = small[i].rows.cols;
        st = resize(p, esi_cols(p->level[i].rows, channels, channels), &small[i], p->level[i].grid);
        if (st == ESPALIER_OK && i < COARSEST) esi_tap(p->ctx, p->level[i].rows, "enc_x%d", i + 1);
    }
    esi_scope_end(p->ctx, scope);
    return st;
}

/* All levels side by side at the coarsest grid. */
static espalier_status meet(birefnet_pass *p)
{
    const esi_grid grid = p->level[COARSEST].grid;
    int64_t column = 0, channels = 0;
    espalier_status st;

    for (int i = 0; i < ESI_BIREFNET_LEVELS; i++) channels += p->level[i].rows.cols;
    st = esi_map_new(p->ctx, &p->coarse, grid, channels);
    for (int i = 0; st == ESPALIER_OK && i < ESI_BIREFNET_LEVELS; i++) {
        st = resize(p, esi_cols(p->coarse.rows, column, p->level[i].rows.cols), &p->level[i], grid);
        column += p->level[i].rows.cols;
    }
    esi_tensor_free(p->ctx, &p->level[COARSEST].rows);
    if (st == ESPALIER_OK) esi_tap(p->ctx, p->coarse.rows, "enc_x4");
    return st;
}

static espalier_status encode(birefnet_pass *p)
{
    espalier_status st = run_backbone_full(p);

    if (st == ESPALIER_OK) st = run_backbone_half(p);
    return st == ESPALIER_OK ? meet(p) : st;
}

/* ------------------------------------------------------------------ decoder */

/* *y is new, x is released. */
static espalier_status run_block(espalier_context *ctx, const esi_birefnet_block *b, esi_map *y, esi_map *x)
{
    esi_map inside = {0}, refined = {0};
    espalier_status st = esi_map_new(ctx, &inside, x->grid, b->conv_in.out);

    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &b->conv_in, inside.rows, x, (esi_tensor){0});
    esi_tensor_free(ctx, &x->rows);
    if (st == ESPALIER_OK) st = esi_map_new(ctx, &refined, x->grid, b->conv_in.out);
    if (st == ESPALIER_OK) st = esi_aspp_forward(ctx, &b->aspp, refined.rows, &inside);
    esi_tensor_free(ctx, &inside.rows);
    if (st == ESPALIER_OK) st = esi_map_new(ctx, y, x->grid, b->conv_out.out);
    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &b->conv_out, y->rows, &refined, (esi_tensor){0});
    esi_tensor_free(ctx, &refined.rows);
    return st;
}

/* The picture as tiles of a level's size, tiles as channels c * tiles + tile. */
static espalier_status tile_picture(const birefnet_pass *p, esi_map *tiles, esi_grid grid)
{
    const int64_t rows = grid.height * grid.width, count = p->picture.rows.rows / rows;
    esi_tensor index = {0}, gathered = {0};
    espalier_status st = esi_tile_index(p->ctx, &index, p->picture.grid, grid);

    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &gathered, rows, count * 3, ESI_F32);
    if (st == ESPALIER_OK) st = esi_gather_rows(p->ctx, esi_reshape(gathered, rows * count, 3), p->picture.rows, index);
    esi_tensor_free(p->ctx, &index);
    if (st == ESPALIER_OK) st = esi_map_new(p->ctx, tiles, grid, count * 3);
    if (st == ESPALIER_OK) st = esi_transpose_cols(p->ctx, tiles->rows, gathered, count, 3);
    esi_tensor_free(p->ctx, &gathered);
    return st;
}

/* patch[i + 1] over the tiles of level i, whose grid `like` has. */
static espalier_status run_patch(const birefnet_pass *p, const esi_map *like, int i, esi_tensor y)
{
    const esi_birefnet_patch *patch = &p->model->patch[i + 1];
    esi_scope scope = esi_scope_begin(p->ctx);
    esi_map tiles = {0}, hidden = {0};
    espalier_status st = tile_picture(p, &tiles, like->grid);

    if (st == ESPALIER_OK) st = esi_map_new(p->ctx, &hidden, tiles.grid, patch->conv1.out);
    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &patch->conv1, hidden.rows, &tiles, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &patch->conv_out, y, &hidden, (esi_tensor){0});
    esi_scope_end(p->ctx, scope);
    return st;
}

/* x *= sigmoid(attend(relu(gate(x)))), one factor per pixel. */
static espalier_status apply_gate(const birefnet_pass *p, int i, const esi_map *x)
{
    const esi_birefnet *m = p->model;
    esi_map gate = {0};
    esi_tensor factor = {0};
    espalier_status st = esi_map_new(p->ctx, &gate, x->grid, m->gate[i].out);

    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &m->gate[i], gate.rows, x, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &factor, x->rows.rows, 1, ESI_F32);
    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &m->attend[i], factor, &gate, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_scale_rows(p->ctx, x->rows, x->rows, factor);
    esi_tensor_free(p->ctx, &gate.rows);
    esi_tensor_free(p->ctx, &factor);
    return st;
}

/* One level: [what comes from below, tiles] -> decoder block. `below` is released. */
static espalier_status decode_level(birefnet_pass *p, int i, esi_map *result, esi_map *below)
{
    const esi_birefnet *m = p->model;
    const int64_t channels = below->rows.cols, patch = m->patch[i + 1].conv_out.out;
    esi_map both = {0};
    espalier_status st = ESPALIER_OK;
    esi_tensor up;

    if (i < COARSEST) st = apply_gate(p, i, below);
    if (st == ESPALIER_OK) st = esi_map_new(p->ctx, &both, p->level[i].grid, channels + patch);
    if (st != ESPALIER_OK) return st;
    up = esi_cols(both.rows, 0, channels);
    st = resize(p, up, below, both.grid);
    esi_tensor_free(p->ctx, &below->rows);
    if (st == ESPALIER_OK && i < COARSEST) st = esi_conv2d_run(p->ctx, &m->lateral[i], up, &p->level[i], up);
    if (i < COARSEST) esi_tensor_free(p->ctx, &p->level[i].rows);
    if (st == ESPALIER_OK) st = run_patch(p, &both, i, esi_cols(both.rows, channels, patch));
    return st == ESPALIER_OK ? run_block(p->ctx, &m->decode[i], result, &both) : st;
}

/* The picture's own convolutions for whole lines [first, end): `hidden` also holds a line above and below them. */
static espalier_status picture_lines(const birefnet_pass *p, esi_tensor y, esi_tensor hidden, int64_t first, int64_t end)
{
    const esi_birefnet_patch *patch = &p->model->patch[0];
    const esi_grid grid = p->picture.grid;
    const int64_t reach = patch->conv_out.geometry.padding, top = ESI_MAX(first - reach, 0), bottom = ESI_MIN(end + reach, grid.height);
    const esi_map band = {esi_rows(hidden, 0, (bottom - top) * grid.width), grid, top * grid.width};
    espalier_status st = esi_conv2d_rows(p->ctx, &patch->conv1, band.rows, &p->picture, band.origin, (esi_tensor){0});

    return st == ESPALIER_OK ? esi_conv2d_rows(p->ctx, &patch->conv_out, y, &band, first * grid.width, (esi_tensor){0}) : st;
}

/* At the picture's size: [decoder's result, the picture's own convolutions] -> logit, some lines at a time. */
static espalier_status run_head(const birefnet_pass *p, esi_tensor logits, const esi_map *x)
{
    const esi_birefnet *m = p->model;
    const esi_grid grid = p->picture.grid;
    const int64_t own = m->patch[0].conv_out.out, deep = m->patch[0].conv1.out, reach = m->patch[0].conv_out.geometry.padding;
    const int64_t rows = esi_image_rows(p->ctx, PICTURE_ROWS, (m->head.in + deep) * (int64_t)sizeof(float));
    const int64_t step = ESI_MIN(ESI_MAX(rows / grid.width, 1), grid.height);
    const esi_epilogue epilogue = {.bias = m->head.shift};
    esi_tensor both = {0}, hidden = {0};
    espalier_status st = esi_tensor_new(p->ctx, &hidden, (step + 2 * reach) * grid.width, deep, ESI_F32);

    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &both, step * grid.width, m->head.in, ESI_F32);
    for (int64_t line = 0; st == ESPALIER_OK && line < grid.height; line += step) {
        const int64_t end = ESI_MIN(line + step, grid.height), first = line * grid.width, count = (end - line) * grid.width;
        const esi_tensor part = esi_rows(both, 0, count);
        st = esi_map_resize_rows(p->ctx, esi_cols(part, 0, x->rows.cols), x, grid, true, first);
        if (st == ESPALIER_OK) st = picture_lines(p, esi_cols(part, x->rows.cols, own), hidden, line, end);
        if (st == ESPALIER_OK) st = esi_linear(p->ctx, esi_rows(logits, first, count), part, m->head.weight, &epilogue);
    }
    esi_tensor_free(p->ctx, &both);
    esi_tensor_free(p->ctx, &hidden);
    return st;
}

static espalier_status decode(birefnet_pass *p, esi_tensor logits)
{
    const esi_birefnet *m = p->model;
    esi_map x = {0}, next = {0};
    espalier_status st = run_block(p->ctx, &m->squeeze, &x, &p->coarse);

    if (st == ESPALIER_OK) esi_tap(p->ctx, x.rows, "squeeze");
    for (int i = COARSEST; st == ESPALIER_OK && i >= 0; i--) {
        st = decode_level(p, i, &next, &x);
        x = next;
        next = (esi_map){0};
    }
    return st == ESPALIER_OK ? run_head(p, logits, &x) : st;
}

/* ------------------------------------------------------------------ memory */

static uint64_t pixels_of(esi_grid g)
{
    return (uint64_t)(g.height * g.width);
}

/* Values that stage i of the backbone and what was before it cannot do without: the stream, normed and mixed. */
static uint64_t stage_values(const esi_birefnet *m, esi_grid picture, int i, uint64_t levels)
{
    return levels + 3 * pixels_of(esi_swin_grid(&m->backbone, picture, i)) * (uint64_t)m->backbone.stages[i].channels;
}

uint64_t esi_birefnet_memory_least(const esi_birefnet *m, int64_t H, int64_t W)
{
    const esi_grid picture = {H, W};
    uint64_t level[ESI_BIREFNET_LEVELS], levels = 0, coarse = 0, most = 0, below;

    for (int i = 0; i < ESI_BIREFNET_LEVELS; i++) {
        const uint64_t channels = 2 * (uint64_t)m->backbone.stages[i].channels;
        most = ESI_MAX(most, stage_values(m, picture, i, levels));
        level[i] = channels * pixels_of(esi_swin_grid(&m->backbone, picture, i));
        levels += level[i];
        coarse += channels;
    }
    most = ESI_MAX(most, levels + coarse * pixels_of(esi_swin_grid(&m->backbone, picture, COARSEST)));
    levels -= level[COARSEST];
    below = (uint64_t)m->squeeze.conv_out.out * pixels_of(esi_swin_grid(&m->backbone, picture, COARSEST));
    for (int i = COARSEST; i >= 0; i--) {
        const uint64_t pixels = pixels_of(esi_swin_grid(&m->backbone, picture, i));
        most = ESI_MAX(most, levels + below + pixels * (uint64_t)m->decode[i].conv_in.in);
        if (i < COARSEST) levels -= level[i];
        below = pixels * (uint64_t)m->decode[i].conv_out.out;
    }
    return (4 * pixels_of(picture) + most) * sizeof(float);
}

espalier_status esi_birefnet_forward(espalier_context *ctx, const esi_birefnet *m, esi_tensor *logits, const float *pixels, int64_t H,
                                     int64_t W)
{
    birefnet_pass p = {.ctx = ctx, .model = m};
    const int64_t multiple = esi_birefnet_multiple(m);
    esi_scope scope;
    espalier_status st;

    *logits = (esi_tensor){0};
    if (H < 2 * multiple || W < 2 * multiple || H % multiple != 0 || W % multiple != 0 || H > ESI_IMAGE_MAX_SIDE || W > ESI_IMAGE_MAX_SIDE)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "BiRefNet: %lld x %lld pixels are not a multiple of %lld", (long long)W, (long long)H,
                        (long long)multiple);
    st = esi_image_check_memory(ctx, "BiRefNet", H, W, esi_birefnet_memory_least(m, H, W));
    if (st != ESPALIER_OK) return st;
    scope = esi_scope_begin(ctx);
    st = esi_tensor_new(ctx, logits, H * W, 1, ESI_F32);
    if (st == ESPALIER_OK) st = esi_map_from_pixels(ctx, &p.picture, pixels, (esi_grid){H, W});
    if (st == ESPALIER_OK) st = encode(&p);
    if (st == ESPALIER_OK) st = decode(&p, *logits);
    if (st == ESPALIER_OK) esi_tap(ctx, *logits, "logits");
    if (st == ESPALIER_OK)
        esi_tensor_keep(ctx, *logits);
    else
        *logits = (esi_tensor){0};
    esi_scope_end(ctx, scope);
    return st;
}
