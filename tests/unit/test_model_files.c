/* SPDX-License-Identifier: MIT
 *
 * test_model_files.c: where the files of a model directory are looked for: Hugging Face folders, caches, repositories side by side, flat
 * GGUF directories, overrides. The files are empty: nothing but pipeline.json is opened.
 */
#include "support.h"

#include "models/model_files.h"

#include <sys/stat.h>

typedef struct fixture {
    test_base base;
    espalier_context *ctx;
    char *dir;
    char path[1024];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_base_open(&f->base, 1);
    f->ctx = f->base.ctx;
    f->dir = test_dir_make();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[1100];
    test_base_close(&f->base);
    snprintf(command, sizeof command, "rm -r '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free(f->dir);
    free(f);
    return 0;
}

static const char *at(fixture *f, const char *name)
{
    return test_path(f->path, f->dir, name);
}

/* A file below the test's directory, with the folders above it. */
static void put(fixture *f, const char *name, const char *text)
{
    at(f, name);
    for (char *c = f->path + strlen(f->dir) + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        (void)mkdir(f->path, 0777);
        *c = '/';
    }
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char pipeline[] = "{\"args\":{\"models\":{\"sparse_structure_flow_model\":\"ckpts/flow\","
                               "\"sparse_structure_decoder\":\"org/other/ckpts/dec\"},"
                               "\"image_cond_model\":{\"args\":{\"model_name\":\"facebook/dinov3-vitl16-pretrain-lvd1689m\"}}}}";

static void find(fixture *f, esi_model_files *files, const char *root)
{
    assert_int_equal(esi_model_files_find(f->ctx, files, at(f, root), NULL), ESPALIER_OK);
    assert_string_equal(espalier_error_message(f->ctx), "");
}

/* Is the weight file of the role the one below the test's directory? Both paths may go through "..". */
static void check_role(fixture *f, const esi_model_files *files, espalier_role role, const char *wanted)
{
    struct stat found, expected;
    if (wanted == NULL) {
        assert_null(files->role[role].weights);
        assert_non_null(files->role[role].wanted);
        return;
    }
    assert_non_null(files->role[role].weights);
    assert_int_equal(stat(files->role[role].weights, &found), 0);
    assert_int_equal(stat(at(f, wanted), &expected), 0);
    assert_true(found.st_dev == expected.st_dev && found.st_ino == expected.st_ino);
}

static void repositories_side_by_side(void **state)
{
    fixture *f = *state;
    esi_model_files files;
    put(f, "hub/main/pipeline.json", pipeline);
    put(f, "hub/main/ckpts/flow.safetensors", "");
    put(f, "hub/main/ckpts/flow.json", "{}");
    find(f, &files, "hub/main");
    assert_int_equal(files.layout, ESI_LAYOUT_HUGGING_FACE);
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "hub/main/ckpts/flow.safetensors");
    assert_non_null(files.role[ESPALIER_ROLE_SS_FLOW].config);
    check_role(f, &files, ESPALIER_ROLE_SS_DECODER, NULL);
    check_role(f, &files, ESPALIER_ROLE_IMAGE_ENCODER, NULL);
    assert_null(files.role[ESPALIER_ROLE_TEX_DECODER].wanted); /* pipeline.json does not name it */
    esi_model_files_free(f->ctx, &files);

    /* From the last place that is looked at to the first one: each wins over those before. */
    static const char *const decoders[] = {"hub/main/dec.gguf", "hub/other/ckpts/dec.safetensors", "hub/org/other/ckpts/dec.safetensors",
                                           "hub/main/org/other/ckpts/dec.safetensors"};
    static const char *const encoders[] = {
        "hub/vit_large_patch16_dinov3.lvd1689m/model.safetensors", "hub/dinov3-vitl16-pretrain-lvd1689m/model.safetensors",
        "hub/facebook/dinov3-vitl16-pretrain-lvd1689m/model.safetensors", "hub/main/dinov3-any/model.safetensors",
        "hub/main/dinov3-vitl16-pretrain-lvd1689m/model.safetensors"};
    for (size_t i = 0; i < ESI_COUNT(encoders); i++) {
        put(f, encoders[i], "");
        if (i < ESI_COUNT(decoders)) put(f, decoders[i], "");
        find(f, &files, "hub/main");
        check_role(f, &files, ESPALIER_ROLE_IMAGE_ENCODER, encoders[i]);
        check_role(f, &files, ESPALIER_ROLE_SS_DECODER, decoders[ESI_MIN(i, ESI_COUNT(decoders) - 1)]);
        esi_model_files_free(f->ctx, &files);
    }
    /* The directory above the well-known folder works as well. */
    char from[1024];
    test_path(from, f->dir, "hub/main");
    assert_int_equal(rename(from, at(f, "hub/TRELLIS.2-4B")), 0);
    find(f, &files, "hub");
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "hub/TRELLIS.2-4B/ckpts/flow.safetensors");
    esi_model_files_free(f->ctx, &files);
}

/* models--org--repo/snapshots/<hash>/...: files are links into blobs. */
static void put_cached(fixture *f, const char *repo, const char *hash, const char *name)
{
    char link[1024], blob[400], text[900];
    snprintf(blob, sizeof blob, "%s/blobs/%s-%lu", repo, hash, (unsigned long)strlen(name));
    snprintf(text, sizeof text, "%s/snapshots/%s/%s", repo, hash, name);
    put(f, text, "");
    put(f, blob, strcmp(name, "pipeline.json") == 0 ? pipeline : "");
    test_path(link, f->dir, text);
    assert_int_equal(remove(link), 0);
    assert_int_equal(symlink(at(f, blob), link), 0);
}

static void caches(void **state)
{
    fixture *f = *state;
    esi_model_files files;
    put_cached(f, "hub/models--ms--T2", "aaa", "pipeline.json");
    put_cached(f, "hub/models--ms--T2", "aaa", "ckpts/flow.safetensors");
    put_cached(f, "hub/models--ms--T2", "bbb", "pipeline.json");
    put_cached(f, "hub/models--org--other", "ccc", "ckpts/dec.safetensors");
    put_cached(f, "hub/models--facebook--dinov3-vitl16-pretrain-lvd1689m", "ddd", "model.safetensors");
    /* Without refs/main the last snapshot by name; with it the one it names. A snapshot may be given directly. */
    find(f, &files, "hub/models--ms--T2");
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, NULL);
    esi_model_files_free(f->ctx, &files);
    put(f, "hub/models--ms--T2/refs/main", "aaa\n");
    for (int direct = 0; direct < 2; direct++) {
        find(f, &files, direct ? "hub/models--ms--T2/snapshots/aaa" : "hub/models--ms--T2");
        check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "hub/models--ms--T2/snapshots/aaa/ckpts/flow.safetensors");
        check_role(f, &files, ESPALIER_ROLE_SS_DECODER, "hub/models--org--other/snapshots/ccc/ckpts/dec.safetensors");
        check_role(f, &files, ESPALIER_ROLE_IMAGE_ENCODER,
                   "hub/models--facebook--dinov3-vitl16-pretrain-lvd1689m/snapshots/ddd/model.safetensors");
        esi_model_files_free(f->ctx, &files);
    }
    put(f, "hub/models--ms--T2/refs/main",
        "a hash that is not there and far too long for one, so that the file is refused: "
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789");
    find(f, &files, "hub/models--ms--T2");
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, NULL);
    esi_model_files_free(f->ctx, &files);

    /* A flat GGUF directory in a cache. */
    put_cached(f, "hub/models--x--gguf", "eee", "ss_flow.gguf");
    find(f, &files, "hub/models--x--gguf");
    assert_int_equal(files.layout, ESI_LAYOUT_GGUF);
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "hub/models--x--gguf/snapshots/eee/ss_flow.gguf");
    check_role(f, &files, ESPALIER_ROLE_TEX_DECODER, NULL);
    esi_model_files_free(f->ctx, &files);

    /* pipeline.json beside GGUF files: each role from where it is, safetensors first. */
    put(f, "mixed/pipeline.json", pipeline);
    put(f, "mixed/ss_flow.gguf", "");
    put(f, "mixed/dinov3.gguf", "");
    find(f, &files, "mixed");
    assert_non_null(files.pipeline);
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "mixed/ss_flow.gguf");
    check_role(f, &files, ESPALIER_ROLE_IMAGE_ENCODER, "mixed/dinov3.gguf");
    esi_model_files_free(f->ctx, &files);
    put(f, "mixed/ckpts/flow.safetensors", "");
    find(f, &files, "mixed");
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "mixed/ckpts/flow.safetensors");
    esi_model_files_free(f->ctx, &files);
}

static void refuse(fixture *f, const char *root, const char *const *overrides, espalier_status status, const char *text)
{
    esi_model_files files;
    assert_int_equal(esi_model_files_find(f->ctx, &files, at(f, root), overrides), status);
    if (strstr(espalier_error_message(f->ctx), text) == NULL) fail_msg("'%s' lacks '%s'", espalier_error_message(f->ctx), text);
    esi_clear_error(f->ctx);
    esi_model_files_free(f->ctx, &files);
}

static void overrides_and_refusals(void **state)
{
    fixture *f = *state;
    esi_model_files files;
    char flow[1024], folder[1024];
    refuse(f, "absent", NULL, ESPALIER_ERR_MODEL, "absent: no such model directory");
    put(f, "m/other", "");
    refuse(f, "m", NULL, ESPALIER_ERR_MODEL, "neither pipeline.json nor *.gguf");
    put(f, "m/pipeline.json", "{\"args\":{}}");
    refuse(f, "m", NULL, ESPALIER_ERR_MODEL, "args.models is missing");
    put(f, "m/pipeline.json", pipeline);
    put(f, "my.flow.gguf", "");
    put(f, "my.flow.json", "{}");
    test_path(flow, f->dir, "my.flow.gguf");
    test_path(folder, f->dir, "m");
    const char *const good[] = {"sparse_structure_flow_model", flow, NULL};
    assert_int_equal(esi_model_files_find(f->ctx, &files, at(f, "m"), good), ESPALIER_OK);
    check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "my.flow.gguf");
    assert_string_equal(files.role[ESPALIER_ROLE_SS_FLOW].config, at(f, "my.flow.json"));
    esi_model_files_free(f->ctx, &files);
    refuse(f, "m", (const char *const[]){"flow", flow, NULL}, ESPALIER_ERR_ARG, "unknown role 'flow'; roles are: image_cond_model");
    refuse(f, "m", (const char *const[]){"tex_slat_decoder", NULL}, ESPALIER_ERR_ARG, "has no path");
    refuse(f, "m", (const char *const[]){"tex_slat_decoder", "/nowhere", NULL}, ESPALIER_ERR_MODEL, "/nowhere: no such file");
    refuse(f, "m", (const char *const[]){"tex_slat_decoder", folder, NULL}, ESPALIER_ERR_MODEL, "is a directory; name the file in it");
}

/* Without memory a path is not tried: that must not look like a file that is not there. */
static void failing_allocations(void **state)
{
    fixture *f = *state;
    put_cached(f, "hub/models--ms--T2", "aaa", "pipeline.json");
    put_cached(f, "hub/models--ms--T2", "bbb", "pipeline.json");
    put(f, "hub/models--ms--T2/refs/main", "aaa");
    put_cached(f, "hub/models--ms--T2", "aaa", "ckpts/flow.safetensors");
    put_cached(f, "hub/models--org--other", "ccc", "ckpts/dec.safetensors");
    put_cached(f, "hub/models--timm--vit_large_patch16_dinov3.lvd1689m", "ddd", "model.safetensors");
    for (long n = 1;; n++) {
        esi_model_files files;
        test_fail_at(&f->base.memory, n);
        espalier_status st = esi_model_files_find(f->ctx, &files, at(f, "hub/models--ms--T2"), NULL);
        test_fail_at(&f->base.memory, 0);
        if (st == ESPALIER_OK) {
            check_role(f, &files, ESPALIER_ROLE_SS_FLOW, "hub/models--ms--T2/snapshots/aaa/ckpts/flow.safetensors");
            check_role(f, &files, ESPALIER_ROLE_SS_DECODER, "hub/models--org--other/snapshots/ccc/ckpts/dec.safetensors");
            check_role(f, &files, ESPALIER_ROLE_IMAGE_ENCODER,
                       "hub/models--timm--vit_large_patch16_dinov3.lvd1689m/snapshots/ddd/model.safetensors");
        } else {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        }
        esi_clear_error(f->ctx);
        esi_model_files_free(f->ctx, &files);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        if (st == ESPALIER_OK) break;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(repositories_side_by_side),
        TEST(caches),
        TEST(overrides_and_refusals),
        TEST(failing_allocations),
    };
    return cmocka_run_group_tests_name("model_files", tests, NULL, NULL);
}
