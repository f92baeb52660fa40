/* SPDX-License-Identifier: MIT
 *
 * The matting networks: the same bits at every level of the processor, thread count and budget, from every spelling of the weights; every
 * missing, misshapen or damaged tensor is named; failing allocations; cancelling. Values against the reference are golden cases.
 */
#include "matting_fixture.h"

#include "models/birefnet.h"
#include "formats/image_codecs.h"
#include "models/u2net.h"
#include "pipeline/matting.h"

enum { SIDE = 64, PIXELS = SIDE * SIDE };

static void draw(float *pixels)
{
    for (int i = 0; i < 3 * PIXELS; i++) pixels[i] = (float)(i * 37 % 101) / 40.0f - 1.2f + (i % SIDE > 20 && i % SIDE < 45 ? 0.7f : 0.0f);
}

/* One kind of network behind the same face. */
typedef struct network {
    const char *case_name;
    bool birefnet;
    uint64_t hash; /* FNV-1a of the result's bytes, on every machine */
} network;
static const network networks[] = {{"u2netp", false, UINT64_C(0x16868fb7e80c9254)},
                                   {"isnet_tiny", false, UINT64_C(0xdcf238319693a616)},
                                   {"birefnet_tiny", true, UINT64_C(0x75d406dc603d304d)}};

typedef struct opened {
    esi_u2net *u2net;
    esi_birefnet *birefnet;
} opened;

static espalier_status open_network(fixture *f, const network *k, opened *o, esi_weight_file *file)
{
    memset(o, 0, sizeof *o);
    return k->birefnet ? esi_birefnet_open(f->ctx, &o->birefnet, file) : esi_u2net_open(f->ctx, &o->u2net, file);
}

static void close_network(fixture *f, opened *o)
{
    esi_birefnet_free(f->ctx, o->birefnet);
    esi_u2net_free(f->ctx, o->u2net);
}

static espalier_status run_network(fixture *f, const opened *o, float *out)
{
    static float pixels[3 * PIXELS];
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor t = {0};
    draw(pixels);
    espalier_status st = o->birefnet ? esi_birefnet_forward(f->ctx, o->birefnet, &t, pixels, SIDE, SIDE)
                                     : esi_u2net_forward(f->ctx, o->u2net, &t, pixels, SIDE, SIDE);
    if (st == ESPALIER_OK) {
        assert_int_equal(t.rows, PIXELS);
        assert_int_equal(t.cols, 1);
        st = esi_tensor_read(f->ctx, t, out);
    }
    esi_scope_end(f->ctx, scope);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    return st;
}

static void run_file(fixture *f, const network *k, esi_weight_file *file, float *out)
{
    opened o;
    if (open_network(f, k, &o, file) != ESPALIER_OK) fail_msg("%s: %s", k->case_name, espalier_error_message(f->ctx));
    if (run_network(f, &o, out) != ESPALIER_OK) fail_msg("%s: %s", k->case_name, espalier_error_message(f->ctx));
    close_network(f, &o);
}

static void expect_same(const char *what, const float *got, const float *want)
{
    for (int i = 0; i < PIXELS; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s: pixel %d is %a, expected %a", what, i, (double)got[i], (double)want[i]);
}

/* ---------------------------------------------------------------- same bits */

static uint64_t hash_of(const float *values)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < PIXELS; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        for (int k = 0; k < 4; k++) hash = (hash ^ (bits >> 8 * k & 255)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void test_levels_and_threads(void **state)
{
    static const espalier_cpu_level levels[] = {ESPALIER_CPU_GENERIC, ESPALIER_CPU_GENERIC_FMA, ESPALIER_CPU_AVX2, ESPALIER_CPU_AVX512,
                                                ESPALIER_CPU_NEON};
    static float want[PIXELS], got[PIXELS];
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        bool have = false;
        for (size_t l = 0; l < ESI_COUNT(levels); l++) {
            for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
                espalier_runtime_options o = espalier_runtime_options_default();
                espalier_runtime *probe = NULL;
                fixture f;
                net n;
                o.cpu_level = levels[l];
                if ((levels[l] == ESPALIER_CPU_GENERIC && threads > 1) || espalier_runtime_create(&probe, &o) != ESPALIER_OK) continue;
                espalier_runtime_free(probe);
                open_fixture(&f, levels[l], threads);
                net_load(&f, &n, networks[k].case_name);
                run_file(&f, &networks[k], net_whole_file(&f, &n), have ? got : want);
                if (have) expect_same(networks[k].case_name, got, want);
                have = true;
                net_free(&n);
                close_fixture(&f);
            }
        }
        assert_true(have);
        if (hash_of(want) != networks[k].hash)
            fail_msg("%s: hash %016llx, expected %016llx", networks[k].case_name, (unsigned long long)hash_of(want),
                     (unsigned long long)networks[k].hash);
    }
}

/* A budget just above what a run needs, and one below: an error, no leak. */
static void test_budget(void **state)
{
    static float want[PIXELS], got[PIXELS];
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        opened o;
        open_fixture(&f, ESPALIER_CPU_BEST, 1);
        net_load(&f, &n, networks[k].case_name);
        assert_int_equal(open_network(&f, &networks[k], &o, net_whole_file(&f, &n)), ESPALIER_OK);
        assert_int_equal(run_network(&f, &o, want), ESPALIER_OK);
        espalier_context_set_memory_budget(f.ctx, 6 << 20);
        assert_int_equal(run_network(&f, &o, got), ESPALIER_OK);
        expect_same("budget", got, want);
        espalier_context_set_memory_budget(f.ctx, 256 << 10);
        expect_failure(&f, run_network(&f, &o, got), ESPALIER_ERR_RESOURCE, "");
        close_network(&f, &o);
        net_free(&n);
        close_fixture(&f);
    }
}

static void test_module_prefix(void **state)
{
    static float want[PIXELS], got[PIXELS];
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        net n;
        open_fixture(&f, ESPALIER_CPU_BEST, 2);
        net_load(&f, &n, networks[k].case_name);
        run_file(&f, &networks[k], net_whole_file(&f, &n), want);
        run_file(&f, &networks[k], net_file(&f, &n, n.count, "module."), got);
        expect_same("module.", got, want);
        net_free(&n);
        close_fixture(&f);
    }
}

/* ------------------------------------------------------------ batch norms */

/* The name of the norm that this running_var belongs to, or NULL. */
static const char *norm_of(const net_tensor *t, char norm[128])
{
    const size_t len = strlen(t->name), end = strlen(".running_var");
    if (len < end || strcmp(t->name + len - end, ".running_var") != 0) return NULL;
    snprintf(norm, 128, "%.*s", (int)(len - end), t->name);
    return norm;
}

static net_tensor *part_of(net *n, const char *norm, const char *part)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", norm, part);
    return net_find(n, name);
}

/* Weight and bias of every norm become scale and shift in fp32; the statistics go. */
static void fold_to_scale_and_shift(net *n)
{
    char norm[128], name[160];
    for (size_t i = 0; i < n->count;) {
        if (!norm_of(&n->tensors[i], norm)) {
            i++;
            continue;
        }
        const int64_t channels = n->tensors[i].shape[0];
        float *var = net_values(n, part_of(n, norm, "running_var")), *mean = net_values(n, part_of(n, norm, "running_mean"));
        float *weight = net_values(n, part_of(n, norm, "weight")), *bias = net_values(n, part_of(n, norm, "bias"));
        for (int64_t c = 0; c < channels; c++) {
            weight[c] = weight[c] / sqrtf(var[c] + 1e-5f);
            bias[c] = bias[c] - mean[c] * weight[c];
        }
        snprintf(part_of(n, norm, "weight")->name, 128, "%.110s.scale", norm);
        snprintf(part_of(n, norm, "bias")->name, 128, "%.110s.shift", norm);
        snprintf(name, sizeof name, "%s.running_mean", norm);
        net_remove(n, name);
        snprintf(name, sizeof name, "%s.running_var", norm);
        net_remove(n, name);
        i = 0;
    }
}

/* What trellis.cpp writes: vectors F32, the rest F16 (bias tables F32), norms as scale and shift. */
static esi_weight_file *gguf_file(fixture *f, net *n, const char *path)
{
    esi_safetensors_entry *entries = calloc(n->count, sizeof *entries);
    esi_weight_file *file = NULL;
    assert_non_null(entries);
    for (size_t i = 0; i < n->count; i++) {
        net_tensor *t = &n->tensors[i];
        if (t->rank == 1 || strstr(t->name, "relative_position_bias_table")) net_values(n, t);
        entries[i] = (esi_safetensors_entry){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(entries[i].shape, t->shape, sizeof entries[i].shape);
    }
    if (esi_gguf_write(f->ctx, path, entries, n->count, "birefnet-swinl", "birefnet", NULL, NULL, NULL) != ESPALIER_OK)
        fail_msg("%s", espalier_error_message(f->ctx));
    free(entries);
    assert_int_equal(esi_weight_file_open(f->ctx, &file, path), ESPALIER_OK);
    return file;
}

static void test_gguf(void **state)
{
    static float want[PIXELS], got[PIXELS];
    char path[1024], *dir = test_dir_make();
    fixture f;
    net n;
    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    net_load(&f, &n, "birefnet_tiny");
    run_file(&f, &networks[2], net_whole_file(&f, &n), want);
    fold_to_scale_and_shift(&n);
    run_file(&f, &networks[2], gguf_file(&f, &n, test_path(path, dir, "birefnet.gguf")), got);
    expect_same("GGUF", got, want);
    net_free(&n);
    close_fixture(&f);
    test_dir_remove(dir);
    free(dir);
}

/* Norms folded into the convolutions, as exporters do: close, and no norm asked for. */
static void test_folded_convolutions(void **state)
{
    static float want[PIXELS], got[PIXELS];
    fixture f;
    net n;
    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    net_load(&f, &n, "u2netp");
    run_file(&f, &networks[0], net_whole_file(&f, &n), want);
    fold_to_scale_and_shift(&n);
    for (size_t i = 0; i < n.count;) {
        char conv[128], name[160];
        const char *suffix = strstr(n.tensors[i].name, ".bn_s1.scale");
        if (!suffix) {
            i++;
            continue;
        }
        snprintf(conv, sizeof conv, "%.*s", (int)(suffix - n.tensors[i].name), n.tensors[i].name);
        snprintf(name, sizeof name, "%s.bn_s1", conv);
        const float *scale = net_values(&n, part_of(&n, name, "scale")), *shift = net_values(&n, part_of(&n, name, "shift"));
        snprintf(name, sizeof name, "%s.conv_s1", conv);
        net_tensor *w = part_of(&n, name, "weight");
        float *weight = net_values(&n, w), *bias = net_values(&n, part_of(&n, name, "bias"));
        const int64_t per = w->shape[1] * 9;
        for (int64_t o = 0; o < w->shape[0]; o++) {
            for (int64_t k = 0; k < per; k++) weight[o * per + k] *= scale[o];
            bias[o] = bias[o] * scale[o] + shift[o];
        }
        snprintf(name, sizeof name, "%s.bn_s1.scale", conv);
        net_remove(&n, name);
        snprintf(name, sizeof name, "%s.bn_s1.shift", conv);
        net_remove(&n, name);
        i = 0;
    }
    run_file(&f, &networks[0], net_whole_file(&f, &n), got);
    for (int i = 0; i < PIXELS; i++) assert_true(fabsf(got[i] - want[i]) < 2e-5f);
    net_free(&n);
    close_fixture(&f);
}

/* IS-Net's result is its first side map; files exported for use lack the others. */
static void test_first_side_only(void **state)
{
    static float want[PIXELS], got[PIXELS];
    fixture f;
    net n;
    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    net_load(&f, &n, "isnet_tiny");
    run_file(&f, &networks[1], net_whole_file(&f, &n), want);
    for (int i = 2; i <= 6; i++) {
        char name[24];
        snprintf(name, sizeof name, "side%d.weight", i);
        net_remove(&n, name);
        snprintf(name, sizeof name, "side%d.bias", i);
        net_remove(&n, name);
    }
    run_file(&f, &networks[1], net_whole_file(&f, &n), got);
    expect_same("first side map only", got, want);
    net_free(&n);
    close_fixture(&f);
}

/* ------------------------------------------------------------ hostile files */

/* The network's own heads of training may be missing. */
static bool is_unused(const char *name)
{
    return strstr(name, "conv_ms_spvn_") || strstr(name, "gdt_convs_pred_");
}

static void test_every_tensor_missing(void **state)
{
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        open_fixture(&f, ESPALIER_CPU_BEST, 1);
        net_load(&f, &n, networks[k].case_name);
        for (size_t i = 0; i < n.count; i++) {
            opened o;
            espalier_status st = open_network(&f, &networks[k], &o, net_file(&f, &n, i, ""));
            if (is_unused(n.tensors[i].name))
                assert_int_equal(st, ESPALIER_OK);
            else if (st != ESPALIER_ERR_MODEL || !strstr(espalier_error_message(f.ctx), "m.bin"))
                fail_msg("%s without %s: status %d, \"%s\"", networks[k].case_name, n.tensors[i].name, (int)st,
                         espalier_error_message(f.ctx));
            esi_clear_error(f.ctx);
            close_network(&f, &o);
        }
        net_free(&n);
        close_fixture(&f);
    }
}

/* Vectors one longer, matrices and kernels with an extent less: refused, or not used at all. Every third tensor, for the time it takes. */
static void test_shapes_wrong(void **state)
{
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        open_fixture(&f, ESPALIER_CPU_BEST, 1);
        net_load(&f, &n, networks[k].case_name);
        for (size_t i = 0; i < n.count; i += 3) {
            net_tensor *t = &n.tensors[i], was = *t;
            static const uint8_t zeros[1 << 20];
            opened o;
            t->rank = was.rank == 1 ? 1 : was.rank - 1;
            t->shape[0] = was.rank == 1 ? was.shape[0] + 1 : was.shape[0];
            t->size = t->dtype == ESI_FILE_F16 ? 2 : 4;
            for (int r = 0; r < t->rank; r++) t->size *= (size_t)t->shape[r];
            assert_true(t->size <= sizeof zeros);
            t->data = zeros;
            espalier_status st = open_network(&f, &networks[k], &o, net_whole_file(&f, &n));
            /* [n, 1] and [n] are the same table of relative positions */
            if (st == ESPALIER_OK && was.shape[was.rank - 1] == 1 && strstr(was.name, "relative_position_bias_table")) goto next;
            if (!is_unused(was.name) && (st != ESPALIER_ERR_MODEL || !strstr(espalier_error_message(f.ctx), "m.bin")))
                fail_msg("%s with a misshapen %s: status %d, \"%s\"", networks[k].case_name, was.name, (int)st,
                         espalier_error_message(f.ctx));
        next:
            esi_clear_error(f.ctx);
            close_network(&f, &o);
            *t = was;
        }
        net_free(&n);
        close_fixture(&f);
    }
}

static void count_warning(void *user, espalier_log_level level, const char *text)
{
    if (level == ESPALIER_LOG_WARNING && strstr(text, "extra.weight")) ++*(int *)user;
}

static void test_damage(void **state)
{
    fixture f;
    net n;
    opened o;
    int warnings = 0;
    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 1);
    net_load(&f, &n, "u2netp");
    net_values(&n, net_find(&n, "stage3.rebnconv2.bn_s1.running_var"))[1] = -2.0f;
    expect_failure(&f, open_network(&f, &networks[0], &o, net_whole_file(&f, &n)), ESPALIER_ERR_MODEL, "stage3.rebnconv2.bn_s1");
    net_values(&n, net_find(&n, "stage3.rebnconv2.bn_s1.running_var"))[1] = 1.0f;
    net_values(&n, net_find(&n, "side4.weight"))[5] = NAN;
    assert_int_equal(open_network(&f, &networks[0], &o, net_whole_file(&f, &n)), ESPALIER_OK);
    expect_failure(&f, esi_weights_check_finite(f.ctx, esi_u2net_weights(o.u2net)), ESPALIER_ERR_MODEL, "side4.weight");
    close_network(&f, &o);
    snprintf(net_find(&n, "stage1.rebnconvin.conv_s1.weight")->name, 128, "extra.weight");
    expect_failure(&f, open_network(&f, &networks[0], &o, net_whole_file(&f, &n)), ESPALIER_ERR_MODEL, "neither U2-Net nor IS-Net");
    net_free(&n);

    net_load(&f, &n, "birefnet_tiny");
    snprintf(net_find(&n, "decoder.conv_ms_spvn_2.weight")->name, 128, "extra.weight");
    f.runtime->log = count_warning;
    f.runtime->log_user = &warnings;
    assert_int_equal(open_network(&f, &networks[2], &o, net_whole_file(&f, &n)), ESPALIER_OK);
    assert_int_equal(warnings, 1);
    float pixels[3];
    esi_tensor t;
    expect_failure(&f, esi_birefnet_forward(f.ctx, o.birefnet, &t, pixels, 64, 48), ESPALIER_ERR_INTERNAL, "multiple of 32");
    close_network(&f, &o);
    net_free(&n);
    close_fixture(&f);
}

/* ------------------------------------------------------- failures, cancelling */

static void test_failing_allocations(void **state)
{
    static float out[PIXELS];
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        opened o;
        open_fixture(&f, ESPALIER_CPU_BEST, 1);
        net_load(&f, &n, networks[k].case_name);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        for (long at = 1; st != ESPALIER_OK; at += 1 + at / 20) { /* opening */
            esi_weight_file *file = net_whole_file(&f, &n);
            test_fail_at(&f.memory, at);
            st = open_network(&f, &networks[k], &o, file);
            test_fail_at(&f.memory, 0);
            if (st != ESPALIER_OK) expect_failure(&f, st, ESPALIER_ERR_RESOURCE, "");
        }
        st = ESPALIER_ERR_RESOURCE;
        for (long at = 1; st != ESPALIER_OK; at += 1 + at / 15) { /* running */
            test_fail_at(&f.memory, at);
            st = run_network(&f, &o, out);
            test_fail_at(&f.memory, 0);
            if (st != ESPALIER_OK) expect_failure(&f, st, ESPALIER_ERR_RESOURCE, "");
        }
        close_network(&f, &o);
        net_free(&n);
        close_fixture(&f);
    }
}

static void test_cancel(void **state)
{
    static float out[PIXELS];
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        opened o;
        open_fixture(&f, ESPALIER_CPU_BEST, 2);
        net_load(&f, &n, networks[k].case_name);
        assert_int_equal(open_network(&f, &networks[k], &o, net_whole_file(&f, &n)), ESPALIER_OK);
        espalier_context_cancel(f.ctx);
        expect_failure(&f, run_network(&f, &o, out), ESPALIER_ERR_CANCELLED, "");
        espalier_context_reset_cancel(f.ctx);
        assert_int_equal(run_network(&f, &o, out), ESPALIER_OK);
        close_network(&f, &o);
        net_free(&n);
        close_fixture(&f);
    }
}

/* ------------------------------------------------------ picture in, alpha out */

/* The whole way against its pieces, which golden cases cover one by one; and at failing allocations. */
static void test_picture_to_mask(void **state)
{
    static const char *const names[] = {"U2-NetP", "IS-Net", "BiRefNet"};
    static const esi_matte_recipe recipes[] = {ESI_MATTE_U2NET, ESI_MATTE_ISNET, ESI_MATTE_BIREFNET};
    static float pixels[3 * PIXELS];
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(networks); k++) {
        fixture f;
        net n;
        opened o;
        esi_matting *m = NULL;
        espalier_image rgb, mask, want;
        float *input, *map = calloc(PIXELS, sizeof *map);
        esi_tensor t;
        open_fixture(&f, ESPALIER_CPU_BEST, 1);
        net_load(&f, &n, networks[k].case_name);
        assert_int_equal(esi_image_new(f.ctx, &rgb, 40, 31, 3), ESPALIER_OK);
        for (size_t i = 0; i < esi_image_size(&rgb); i++) rgb.pixels[i] = (uint8_t)(i * 7 % 251);

        assert_int_equal(open_network(&f, &networks[k], &o, net_whole_file(&f, &n)), ESPALIER_OK);
        assert_int_equal(esi_matte_prepare(f.ctx, &input, &rgb, recipes[k], SIDE, NULL), ESPALIER_OK);
        memcpy(pixels, input, sizeof pixels);
        esi_free(f.ctx, input);
        esi_scope scope = esi_scope_begin(f.ctx);
        assert_int_equal(o.birefnet ? esi_birefnet_forward(f.ctx, o.birefnet, &t, pixels, SIDE, SIDE)
                                    : esi_u2net_forward(f.ctx, o.u2net, &t, pixels, SIDE, SIDE),
                         ESPALIER_OK);
        if (o.birefnet) assert_int_equal(esi_activate(f.ctx, t, t, ESI_ACT_SIGMOID), ESPALIER_OK);
        assert_int_equal(esi_tensor_read(f.ctx, t, map), ESPALIER_OK);
        esi_scope_end(f.ctx, scope);
        assert_int_equal(esi_matte_finish(f.ctx, &want, map, SIDE, recipes[k], 40, 31, NULL), ESPALIER_OK);
        close_network(&f, &o);

        assert_int_equal(esi_matting_open_file(f.ctx, &m, net_whole_file(&f, &n)), ESPALIER_OK);
        assert_string_equal(esi_matting_name(m), names[k]);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        for (long at = 1; st != ESPALIER_OK; at += 1 + at / 5) {
            test_fail_at(&f.memory, at);
            st = esi_matting_mask(f.ctx, m, &rgb, SIDE, &mask);
            test_fail_at(&f.memory, 0);
            if (st != ESPALIER_OK) expect_failure(&f, st, ESPALIER_ERR_RESOURCE, "");
        }
        assert_int_equal(mask.width, 40);
        assert_int_equal(mask.height, 31);
        assert_memory_equal(mask.pixels, want.pixels, 40 * 31);
        espalier_image_free(&mask);
        espalier_image_free(&want);
        espalier_image_free(&rgb);
        esi_matting_free(f.ctx, m);
        if (k == 0) {
            snprintf(net_find(&n, "outconv.weight")->name, 128, "outconf.weight");
            expect_failure(&f, esi_matting_open_file(f.ctx, &m, net_whole_file(&f, &n)), ESPALIER_ERR_MODEL, "no matting network");
        }
        free(map);
        net_free(&n);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_and_threads),  cmocka_unit_test(test_budget),
        cmocka_unit_test(test_module_prefix),       cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_folded_convolutions), cmocka_unit_test(test_first_side_only), cmocka_unit_test(test_every_tensor_missing),
        cmocka_unit_test(test_shapes_wrong),        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_failing_allocations), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_picture_to_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
