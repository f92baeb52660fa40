/* SPDX-License-Identifier: MIT
 *
 * test_matting.c: the public calls for cutting out with networks: which file is taken, that it is opened once and paid for by itself, what
 * failures say, the same mask for every number of threads, and that a run stops where its matting stops.
 */
#include "matte_pictures.h"
#include "red_net.h"

#include "models/matting_files.h"
#include "pipeline/stages.h"

#include <sys/stat.h>

static const rgba gray = {128, 128, 128, 255}, red = {200, 40, 40, 255};

static rgba subject(int x, int y)
{
    return in_box(x, y, 20, 15, 60, 50) ? red : gray;
}

typedef struct job {
    fixture *f;
    char *dir;
    char path[4][1024];
    espalier_matting_options options;
    const char *directories[3];
    espalier_matting *matting;
} job;

static job *open_job(int threads)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->f = open_fixture(threads);
    j->dir = test_dir_make();
    j->options = espalier_matting_options_default();
    j->directories[0] = j->dir;
    j->options.directories = j->directories;
    return j;
}

static void close_job(job *j)
{
    char command[1100];
    espalier_matting_free(j->matting);
    close_fixture(j->f);
    snprintf(command, sizeof command, "rm -r '%s'", j->dir);
    assert_int_equal(system(command), 0);
    free(j->dir);
    free(j);
}

static int setup(void **state)
{
    *state = open_job(2);
    return 0;
}

static int teardown(void **state)
{
    close_job(*state);
    return 0;
}

static const char *at(job *j, int slot, const char *name)
{
    return test_path(j->path[slot], j->dir, name);
}

static const char *put(job *j, int slot, const char *name, espalier_matte kind)
{
    write_red_net(at(j, slot, name), kind);
    return j->path[slot];
}

static void create(job *j)
{
    espalier_matting_free(j->matting);
    forget_lines(j->f);
    if (espalier_matting_create(j->f->ctx, &j->matting, &j->options) != ESPALIER_OK) fail_msg("%s", espalier_error_message(j->f->ctx));
}

static void refuse_create(job *j, espalier_status status, const char *text)
{
    espalier_matting *m = NULL;
    espalier_status st = espalier_matting_create(j->f->ctx, &m, &j->options);
    if (st != status || !strstr(espalier_error_message(j->f->ctx), text))
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)st, espalier_error_message(j->f->ctx), (int)status, text);
    assert_null(m);
}

static espalier_matte_stats cut(job *j, espalier_image *out)
{
    espalier_matte_stats stats = espalier_matte_stats_default();
    espalier_image picture = draw(j->f, 80, 60, 3, subject);
    if (espalier_matting_cut(j->f->ctx, j->matting, out, NULL, &stats, &picture, "p.jpg") != ESPALIER_OK)
        fail_msg("%s", espalier_error_message(j->f->ctx));
    espalier_image_free(&picture);
    return stats;
}

static void refuse_cut(job *j, espalier_status status, const char *text)
{
    espalier_matte_stats stats = espalier_matte_stats_default();
    espalier_image picture = draw(j->f, 80, 60, 3, subject), out, mask;
    espalier_status st = espalier_matting_cut(j->f->ctx, j->matting, &out, &mask, &stats, &picture, "p.jpg");
    if (st != status || !strstr(espalier_error_message(j->f->ctx), text))
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)st, espalier_error_message(j->f->ctx), (int)status, text);
    assert_null(out.pixels);
    assert_null(mask.pixels);
    assert_null(stats.reason);
    assert_int_equal(j->f->warnings, 0);
    espalier_image_free(&picture);
}

/* ------------------------------------------------------------- choosing */

static void names(void **state)
{
    static const char *const all[] = {"alpha", "none", "auto", "birefnet", "isnet", "u2net", "u2netp", "threshold"};
    espalier_matte matte = ESPALIER_MATTE_NONE;
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(all); i++) {
        assert_int_equal(espalier_matte_parse(&matte, all[i]), ESPALIER_OK);
        assert_int_equal(matte, i);
        assert_string_equal(espalier_matte_name(matte), all[i]);
    }
    assert_int_equal(espalier_matte_parse(&matte, "AUTO"), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matte_parse(&matte, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matte_parse(NULL, "auto"), ESPALIER_ERR_ARG);
    assert_int_equal(matte, ESPALIER_MATTE_THRESHOLD);
    assert_string_equal(espalier_matte_name((espalier_matte)8), "?");
    assert_string_equal(espalier_matte_warning_name(ESPALIER_MATTE_SEVERAL_PARTS), "several_parts");
    assert_string_equal(espalier_matte_warning_name((espalier_matte_warning)3), "?");
}

static void options_that_contradict(void **state)
{
    job *j = *state;

    j->options.struct_size = 0;
    refuse_create(j, ESPALIER_ERR_ARG, "struct_size");
    j->options = espalier_matting_options_default();
    j->options.matte = (espalier_matte)99;
    refuse_create(j, ESPALIER_ERR_ARG, "unknown matte 99");
    j->options.matte = (espalier_matte)-1;
    refuse_create(j, ESPALIER_ERR_ARG, "unknown matte -1");
    j->options.matte = ESPALIER_MATTE_ALPHA;
    j->options.over_alpha = 1;
    refuse_create(j, ESPALIER_ERR_ARG, "over_alpha");
    j->options.over_alpha = 2;
    refuse_create(j, ESPALIER_ERR_ARG, "0 or 1");
    j->options.over_alpha = 0;
    j->options.network_file = "x";
    refuse_create(j, ESPALIER_ERR_ARG, "matte alpha uses no network, but x");
    assert_int_equal(espalier_matting_create(j->f->ctx, NULL, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_create(NULL, &j->matting, NULL), ESPALIER_ERR_ARG);
    assert_null(j->matting);
    espalier_matting_free(NULL);
    /* An older header's shorter struct keeps the defaults of the rest. */
    j->options = espalier_matting_options_default();
    j->options.struct_size = offsetof(espalier_matting_options, directories);
    j->options.matte = ESPALIER_MATTE_NONE;
    j->options.network_file = "not looked at";
    create(j);
}

static void arguments_of_cut(void **state)
{
    job *j = *state;
    fixture *f = j->f;
    espalier_image picture = draw(f, 8, 8, 3, subject), out, mask = {0};
    espalier_matte_stats unmade = {0};

    assert_int_equal(espalier_matting_create(f->ctx, &j->matting, NULL), ESPALIER_OK); /* the defaults */
    assert_int_equal(espalier_matting_cut(NULL, j->matting, &out, NULL, NULL, &picture, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_cut(f->ctx, NULL, &out, NULL, NULL, &picture, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_cut(f->ctx, j->matting, NULL, NULL, NULL, &picture, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_cut(f->ctx, j->matting, &out, NULL, NULL, NULL, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_cut(f->ctx, j->matting, &out, NULL, &unmade, &picture, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_matting_cut(f->ctx, j->matting, &out, NULL, NULL, &mask, NULL), ESPALIER_ERR_ARG);
    assert_non_null(strstr(espalier_error_message(f->ctx), "picture: not an RGB or RGBA picture"));
    assert_int_equal(espalier_matting_cut(f->ctx, j->matting, &out, NULL, NULL, &picture, NULL), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(f->ctx), "picture: the picture has no transparency, and there is no network"));
    assert_non_null(strstr(espalier_error_message(f->ctx), "to the model directory,"));
    espalier_image_free(&picture);
}

static void best_of_what_is_there(void **state)
{
    job *j = *state;
    espalier_image out;

    create(j);
    refuse_cut(j, ESPALIER_ERR_INPUT, "p.jpg: the picture has no transparency, and there is no network to cut the object out; add");
    put(j, 0, "u2netp.safetensors", ESPALIER_MATTE_U2NETP);
    refuse_cut(j, ESPALIER_ERR_INPUT, j->dir); /* looked for once, when it was made */
    create(j);
    assert_int_equal(j->f->notices, 0);
    espalier_matte_stats s = cut(j, &out);
    assert_int_equal(s.used, ESPALIER_MATTE_U2NETP);
    assert_string_equal(s.network_file, j->path[0]);
    assert_string_equal(s.reason, "the picture has no transparency, and this is the best network found");
    assert_true(s.coverage == 40.0 * 35 / 4800 && s.border == 0 && s.parts == 1 && s.warnings == 0);
    assert_true(was_said(j->f, "p.jpg: matte by u2netp ("));
    espalier_image_free(&out);
    put(j, 1, "u2net.safetensors", ESPALIER_MATTE_U2NET);
    create(j);
    assert_string_equal(cut(j, &out).network_file, j->path[1]);
    espalier_image_free(&out);
    /* A better one in a later directory is better all the same. */
    assert_int_equal(mkdir(at(j, 2, "other"), 0777), 0);
    j->directories[1] = j->path[2];
    put(j, 3, "other/isnet.safetensors", ESPALIER_MATTE_ISNET);
    create(j);
    s = cut(j, &out);
    assert_int_equal(s.used, ESPALIER_MATTE_ISNET);
    assert_string_equal(s.network_file, j->path[3]);
    assert_true(s.coverage == 40.0 * 35 / 4800);
    espalier_image_free(&out);
}

static void by_name_and_by_file(void **state)
{
    job *j = *state;
    espalier_image out;

    j->options.matte = ESPALIER_MATTE_BIREFNET;
    refuse_create(j, ESPALIER_ERR_MODEL, "no weights of birefnet; add birefnet.gguf or BiRefNet/model.safetensors, or name the file");
    j->options.directories = NULL;
    refuse_create(j, ESPALIER_ERR_MODEL, "birefnet: no directory was given to look for birefnet.gguf");
    j->options.directories = j->directories;
    put(j, 0, "birefnet.gguf", ESPALIER_MATTE_U2NETP);
    refuse_create(j, ESPALIER_ERR_MODEL, "birefnet.gguf: holds U2-NetP, not the birefnet that was asked for");
    j->options.matte = ESPALIER_MATTE_AUTO; /* opened when a picture needs it, and nothing else is tried then */
    put(j, 1, "u2netp.safetensors", ESPALIER_MATTE_U2NETP);
    create(j);
    refuse_cut(j, ESPALIER_ERR_MODEL, "birefnet.gguf: holds U2-NetP");
    refuse_cut(j, ESPALIER_ERR_MODEL, "birefnet.gguf: holds U2-NetP");
    j->options.network_file = j->path[0]; /* named, so whatever is in it */
    create(j);
    assert_string_equal(cut(j, &out).reason, "its file was named");
    espalier_image_free(&out);
    j->options.matte = ESPALIER_MATTE_U2NET;
    refuse_create(j, ESPALIER_ERR_MODEL, "holds U2-NetP, not the u2net");
    j->options.matte = ESPALIER_MATTE_U2NETP;
    create(j);
    assert_string_equal(cut(j, &out).reason, "as asked for");
    espalier_image_free(&out);
    j->options.network_file = at(j, 2, "missing");
    refuse_create(j, ESPALIER_ERR_MODEL, "no such file");
    j->options.network_file = j->dir;
    refuse_create(j, ESPALIER_ERR_MODEL, "directory");
}

/* Every name and place, by the empty files that are found. */
static void places(void **state)
{
    static const struct {
        espalier_matte network;
        const char *path;
    } all[] = {
        {ESPALIER_MATTE_BIREFNET, "hub/models--briaai--RMBG-2.0/snapshots/a/model.safetensors"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--ZhengPeng7--BiRefNet/snapshots/a/model.safetensors"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/briaai/RMBG-2.0/model.safetensors"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/BiRefNet/birefnet.gguf"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/BiRefNet/model.safetensors"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/m/ZhengPeng7/BiRefNet/model.safetensors"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/m/BiRefNet/BiRefNet-F16.gguf"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/m/TRELLIS.2-4B/birefnet.gguf"},
        {ESPALIER_MATTE_BIREFNET, "hub/models--x/snapshots/m/birefnet.gguf"},
        {ESPALIER_MATTE_ISNET, "hub/models--x/snapshots/m/isnet-general-use.safetensors"},
        {ESPALIER_MATTE_ISNET, "hub/models--x/snapshots/m/isnet.safetensors"},
        {ESPALIER_MATTE_U2NET, "hub/models--x/snapshots/m/u2net/model.safetensors"},
        {ESPALIER_MATTE_U2NET, "hub/models--x/snapshots/m/u2net.safetensors"},
        {ESPALIER_MATTE_U2NETP, "hub/models--x/snapshots/m/u2netp.safetensors"},
    };
    job *j = *state;
    esi_arena arena = {0};
    char command[3000];
    const char *found = NULL;

    snprintf(command, sizeof command, "mkdir -p '%s/hub/models--x/snapshots/m'", j->dir);
    assert_int_equal(system(command), 0);
    j->directories[0] = at(j, 0, "hub/models--x/snapshots/m");
    for (size_t i = 0; i < ESI_COUNT(all); i++) { /* each wins over those before */
        at(j, 1, all[i].path);
        snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && touch '%s'", j->path[1], j->path[1]);
        assert_int_equal(system(command), 0);
        assert_int_equal(esi_matting_file_find(j->f->ctx, &arena, &found, j->directories, all[i].network), ESPALIER_OK);
        if (!found) fail_msg("%s is not found", all[i].path);
        struct stat a, b;
        assert_int_equal(stat(found, &a) | stat(j->path[1], &b), 0);
        if (a.st_ino != b.st_ino) fail_msg("%s instead of %s", found, all[i].path);
    }
    assert_int_equal(esi_matting_file_find(j->f->ctx, &arena, &found, NULL, ESPALIER_MATTE_U2NET), ESPALIER_OK);
    assert_null(found);
    esi_arena_free(j->f->ctx, &arena);
}

/* ------------------------------------------------------------- one network for many */

static void opened_once(void **state)
{
    job *j = *state;
    fixture *f = j->f;
    espalier_image first, again;

    j->options.network_file = put(j, 0, "net.safetensors", ESPALIER_MATTE_U2NETP);
    create(j);
    cut(j, &first);
    assert_int_equal(remove(j->path[0]), 0); /* mapped already */
    const size_t blocks = atomic_load(&f->memory.live_blocks);
    for (int i = 0; i < 3; i++) {
        cut(j, &again);
        assert_memory_equal(again.pixels, first.pixels, 80 * 60 * 4);
        espalier_image_free(&again);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0); /* the network is on its own account */
    }
    espalier_image_free(&first);
}

/* The matting outlives the context that it was made with, and serves another. */
static void another_context(void **state)
{
    job *j = *state;
    espalier_context *other = NULL;
    espalier_image picture = draw(j->f, 80, 60, 3, subject), mask;

    j->options.network_file = put(j, 0, "net.safetensors", ESPALIER_MATTE_U2NETP);
    assert_int_equal(espalier_context_create(&other, j->f->runtime), ESPALIER_OK);
    assert_int_equal(espalier_matting_create(other, &j->matting, &j->options), ESPALIER_OK);
    espalier_context_free(other);
    assert_int_equal(espalier_matting_cut(j->f->ctx, j->matting, NULL, &mask, NULL, &picture, NULL), ESPALIER_OK);
    assert_int_equal(mask.channels, 1);
    assert_int_equal(mask.pixels[0], 0);
    assert_true(mask.pixels[30 * 80 + 40] > 250);
    espalier_image_free(&mask);
    espalier_image_free(&picture);
}

static void any_number_of_threads(void **state)
{
    static const int threads[] = {1, 2, 5};
    uint8_t want[80 * 60 * 4];
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        job *j = open_job(threads[i]);
        espalier_image out;
        j->options.network_file = put(j, 0, "net.safetensors", ESPALIER_MATTE_U2NETP);
        if (i == 1) espalier_context_set_memory_budget(j->f->ctx, 17 << 20);
        create(j);
        cut(j, &out);
        if (i == 0) memcpy(want, out.pixels, sizeof want);
        assert_memory_equal(out.pixels, want, sizeof want);
        espalier_image_free(&out);
        close_job(j);
    }
}

static void memory_that_runs_out(void **state)
{
    job *j = open_job(1);
    fixture *f = j->f;
    espalier_image picture = draw(f, 80, 60, 3, subject), out;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    long n = 1;

    (void)state;
    put(j, 0, "u2netp.safetensors", ESPALIER_MATTE_U2NETP);
    create(j);
    cut(j, &out);
    espalier_image_free(&out);
    espalier_matting_free(j->matting);
    j->matting = NULL;
    const size_t blocks = atomic_load(&f->memory.live_blocks);
    for (; st != ESPALIER_OK; n += n < 250 ? 1 : 37) { /* opening, then a spread over the run */
        test_fail_at(&f->memory, n);
        st = espalier_matting_create(f->ctx, &j->matting, &j->options);
        if (st == ESPALIER_OK) st = espalier_matting_cut(f->ctx, j->matting, &out, NULL, NULL, &picture, "p");
        const bool reached = atomic_load(&f->memory.requests) >= n;
        test_fail_at(&f->memory, 0);
        if (st != ESPALIER_OK) {
            if (st != ESPALIER_ERR_RESOURCE) fail_msg("allocation %ld: status %d: %s", n, (int)st, espalier_error_message(f->ctx));
            assert_true(espalier_error_message(f->ctx)[0] != 0);
            assert_null(out.pixels);
        } else if (reached) {
            st = ESPALIER_ERR_RESOURCE; /* something that is done without; go on */
        }
        espalier_image_free(&out);
        espalier_matting_free(j->matting);
        j->matting = NULL;
        if (atomic_load(&f->memory.live_blocks) > blocks) fail_msg("allocation %ld leaks", n);
    }
    assert_true(n > 250);
    espalier_image_free(&picture);
    close_job(j);
}

/* ------------------------------------------------------------- a run that stops in it */

typedef struct stub {
    espalier_status status;
    int mattes, conditions;
} stub;

static espalier_status failing_matte(void *user, espalier_context *ctx, esi_matting *network, const espalier_image *rgb,
                                     espalier_image *mask)
{
    stub *s = user;
    (void)rgb, (void)mask;
    s->mattes++;
    assert_string_equal(esi_matting_name(network), "U2-NetP");
    return esi_fail(ctx, s->status, "conv: the device is lost");
}

static espalier_status unwanted_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                          int side, esi_condition_view *out)
{
    stub *s = user;
    (void)model, (void)picture, (void)side, (void)out;
    s->conditions++;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "went on");
}

/* Whatever ends the network ends the run, by its own status, and names the picture and the network. */
static void device_lost(void **state)
{
    static const espalier_status statuses[] = {ESPALIER_ERR_DEVICE, ESPALIER_ERR_RESOURCE, ESPALIER_ERR_MODEL};
    job *j = *state;
    fixture *f = j->f;
    stub s = {0};
    const esi_stage_table stages = {.user = &s, .matte = failing_matte, .image_condition = unwanted_condition};
    espalier_image picture = draw(f, 80, 60, 3, subject);
    espalier_model *model = NULL;
    espalier_asset *asset = NULL;

    put(j, 0, "u2netp.safetensors", ESPALIER_MATTE_U2NETP);
    create(j);
    assert_int_equal(espalier_model_open(f->ctx, &model, ESPALIER_TEST_DATA "/golden/micro_model", NULL), ESPALIER_OK);
    espalier_generate_params params = espalier_generate_params_default(model);
    assert_int_equal(espalier_report_create(f->ctx, &params.report), ESPALIER_OK);
    f->ctx->stages = &stages;
    for (size_t i = 0; i < ESI_COUNT(statuses); i++) {
        s.status = statuses[i];
        assert_int_equal(espalier_generate(f->ctx, &asset, model, &picture, j->matting, "p.jpg", &params), statuses[i]);
        assert_string_equal(espalier_error_message(f->ctx), "p.jpg: matting with U2-NetP: conv: the device is lost");
        assert_null(asset);
    }
    assert_int_equal(s.mattes, 3);
    assert_int_equal(s.conditions, 0);
    f->ctx->stages = NULL;
    espalier_report_free(params.report);
    espalier_model_free(model);
    espalier_image_free(&picture);
}

/* The report of a run has the matte. */
static void in_the_report(void **state)
{
    job *j = *state;
    fixture *f = j->f;
    espalier_report *report = NULL;
    espalier_image picture = draw(f, 80, 60, 3, subject), square;
    const char *json = NULL;
    char want[1200];

    put(j, 0, "u2netp.safetensors", ESPALIER_MATTE_U2NETP);
    create(j);
    assert_int_equal(espalier_report_create(f->ctx, &report), ESPALIER_OK);
    assert_int_equal(espalier_preprocess(f->ctx, &square, &picture, j->matting, "p.jpg", report), ESPALIER_OK);
    assert_int_equal(square.width, square.height);
    assert_in_range(square.width, 38, 40);
    espalier_image_free(&square);
    espalier_matting_free(j->matting); /* the report has its own copy of the name */
    j->matting = NULL;
    assert_int_equal(espalier_report_json(f->ctx, report, &json), ESPALIER_OK);
    snprintf(want, sizeof want, "\"network_file\": \"%s\"", j->path[0]);
    assert_non_null(strstr(json, want));
    assert_non_null(strstr(json, "\"used\": \"u2netp\""));
    assert_non_null(strstr(json, "\"dropped_parts\": 0"));
    espalier_report_free(report);
    espalier_image_free(&picture);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),       TEST(options_that_contradict), TEST(arguments_of_cut), TEST(best_of_what_is_there),
        TEST(by_name_and_by_file),     TEST(places),                  TEST(opened_once),      TEST(another_context),
        cmocka_unit_test(any_number_of_threads), cmocka_unit_test(memory_that_runs_out), TEST(device_lost), TEST(in_the_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
