/* SPDX-License-Identifier: MIT
 *
 * embed.c: the library in a program of your own: generate and finish with progress, cancel by pressing Enter.
 * usage: embed MODEL_DIR PICTURE.png OUT     (.glb .gltf .obj .ply .stl .3mf .usdz)
 */
#include <espalier/espalier.h>

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Called from the computing thread; a non-zero answer cancels. */
static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    char c;
    (void)user;
    printf("\r%-10s %3d %% (Enter cancels) ", stage, total ? (int)(100 * done / total) : 0);
    fflush(stdout);
    return poll(&key, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) == 1;
}

int main(int argc, char **argv)
{
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    espalier_model *model = NULL;
    espalier_image picture = {0};
    espalier_asset *asset = NULL;
    espalier_mesh *mesh = NULL;
    espalier_runtime_options options = espalier_runtime_options_default();
    espalier_status st;

    if (argc != 4) return fprintf(stderr, "usage: embed MODEL_DIR PICTURE.png OUT\n"), 2;
    st = espalier_runtime_create(&runtime, &options);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = espalier_model_open(ctx, &model, argv[1], NULL);
    if (st == ESPALIER_OK) st = espalier_image_load(ctx, &picture, argv[2]);
    if (st == ESPALIER_OK) {
        espalier_generate_params params = espalier_generate_params_default(model);
        espalier_context_set_progress(ctx, on_progress, NULL);
        st = espalier_generate(ctx, &asset, model, &picture, NULL, argv[2], &params);
    }
    if (st == ESPALIER_OK) {
        /* The asset stays as it is: finish it as often as you like. espalier_asset_dump() keeps it for another day. */
        espalier_post_options post = espalier_post_options_default();
        post.faces = 20000;
        post.texture_size = 1024;
        st = espalier_post(ctx, &mesh, asset, &post);
    }
    if (st == ESPALIER_OK) st = espalier_mesh_save(ctx, mesh, argv[3], NULL);
    if (st == ESPALIER_OK)
        printf("\n%lld faces in %s\n", (long long)espalier_mesh_get(mesh).face_count, argv[3]);
    else
        fprintf(stderr, "\nembed: %s\n", ctx ? espalier_error_message(ctx) : espalier_status_name(st));
    espalier_mesh_free(mesh);
    espalier_asset_free(asset);
    espalier_image_free(&picture);
    espalier_model_free(model);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
