/* SPDX-License-Identifier: MIT */
#include "finish.h"

#include <string.h>

const char cli_finish_help[] =
    "finishing the mesh:\n"
    "      --post MODE          clean: repaired, one closed skin, simplified, textured (default); reference: the steps of TRELLIS.2's own\n"
    "                           exporter; none: the raw mesh with a colour per vertex\n"
    "      --faces N            at most so many, from 100 up (default 300000 at 1024, 150000 at 512, fewer below)\n"
    "      --texture-size N     exactly so many texels per side, 16..16384; 0: no textures (default 2048, 1024 up to 512)\n"
    "      --margin X           decisions of the model this close to the fence may be turned over to close the surface, 0..0.01 (0.002)\n"
    "                           0: no repair, and missing voxels stay missing\n"
    "      --fill-perimeter X   close holes with a rim shorter than so many voxels (16)\n"
    "      --remove-floaters X  drop parts with less than this share of the largest part's faces, 0..1 (0.005)\n"
    "      --min-component X    drop parts of less area, in squares of the cube's side (0.00001)\n"
    "      --band X             offset of the remeshing in voxels, 0.5..8: more bridges wider gaps (1)\n"
    "      --remesh-res N       cells of the remeshing grid, even, 16..2048 (default: the asset's resolution)\n"
    "      --project X          how far back to the original surface, 0..1 (1)\n"
    "      --no-remesh          keep the raw mesh's triangles, cleaned\n"
    "      --keep-inner         keep the walls of cavities that nobody sees\n"
    "      --solid              one closed outward skin, everything inside filled: for printing\n"
    "      --box-uv             texture coordinates by six projections: faster, more seams\n"
    "      --padding N          texels between charts, 0..64 (2)\n"
    "      --gutter MODE        what lies between charts: nearest (default), telea\n"
    "      --despeckle N        remove metallic and roughness specks of up to N texels, 0..256 (16)\n"
    "      --normal-map         bake the detail that simplification took away\n"
    "      --ao N               bake ambient occlusion with N rays per texel, 1..1024\n"
    "      --alpha MODE         auto (default: opaque unless a coherent part is translucent), opaque, mask, blend\n"
    "saving it:\n"
    "      --texture-format F   in .glb and .gltf: png (default), jpeg, webp (a PNG stays beside it)\n"
    "      --jpeg-quality N     1..100 (92)\n"
    "      --size-mm X          longest side in .3mf and .stl (100 in .3mf)\n";

void cli_finish_default(cli_finish *f)
{
    f->post = espalier_post_options_default();
    f->save = espalier_save_options_default();
    f->any = false;
}

typedef struct word {
    const char *text;
    int value;
} word;

static bool find_word(const word *words, size_t n, const char *text, int *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i].text, text) != 0) continue;
        *out = words[i].value;
        return true;
    }
    return false;
}

static int whole(const char *command, const char *name, const char *text, int64_t low, int64_t high, int32_t *out)
{
    int64_t v = 0;
    if (!cli_parse_int(text, low, high, &v))
        return cli_usage_error(command, "%s '%s' is not a whole number from %lld to %lld", name, text, (long long)low, (long long)high);
    *out = (int32_t)v;
    return 0;
}

static int number(const char *command, const char *name, const char *text, double low, double high, double *out)
{
    if (!cli_parse_double(text, low, high, out))
        return cli_usage_error(command, "%s '%s' is not a number from %g to %g", name, text, low, high);
    return 0;
}

static int one_of(const char *command, const char *name, const char *text, const word *words, size_t n, const char *list, int *out)
{
    return find_word(words, n, text, out) ? 0 : cli_usage_error(command, "%s '%s' is none of %s", name, text, list);
}
#define ONE_OF(name, words, list, out) one_of(command, name, value, words, sizeof(words) / sizeof((words)[0]), list, out)

static int texture_size(cli_finish *f, const char *command, const char *value)
{
    if (strcmp(value, "0") == 0) return f->post.texture_size = 0, 0;
    return whole(command, "--texture-size", value, 16, 16384, &f->post.texture_size);
}

static int remesh_resolution(cli_finish *f, const char *command, const char *value)
{
    const int status = whole(command, "--remesh-res", value, 16, 2048, &f->post.remesh_resolution);
    if (status == 0 && f->post.remesh_resolution % 2 != 0) return cli_usage_error(command, "--remesh-res '%s' is odd", value);
    return status;
}

int cli_finish_option(cli_finish *f, const char *command, int option, const char *value)
{
    static const word modes[] = {{"clean", ESPALIER_POST_CLEAN}, {"reference", ESPALIER_POST_REFERENCE}, {"none", ESPALIER_POST_NONE}};
    static const word alphas[] = {
        {"auto", ESPALIER_ALPHA_AUTO}, {"opaque", ESPALIER_ALPHA_OPAQUE}, {"mask", ESPALIER_ALPHA_MASK}, {"blend", ESPALIER_ALPHA_BLEND}};
    static const word gutters[] = {{"nearest", 0}, {"telea", 1}};
    static const word formats[] = {{"png", ESPALIER_TEXTURE_PNG}, {"jpeg", ESPALIER_TEXTURE_JPEG}, {"webp", ESPALIER_TEXTURE_WEBP}};
    espalier_post_options *p = &f->post;
    int64_t faces = 0;
    int choice = 0, status;

    if (option < CLI_OPT_POST || option > CLI_OPT_SIZE_MM) return 1;
    f->any = true;
    switch (option) {
    case CLI_OPT_POST:
        status = ONE_OF("--post", modes, "clean, reference, none", &choice);
        p->mode = (espalier_post_mode)choice;
        return status;
    case CLI_OPT_FACES:
        if (!cli_parse_int(value, 100, 100000000, &faces))
            return cli_usage_error(command, "--faces '%s' is not a whole number from 100 to 100000000", value);
        p->faces = faces;
        return 0;
    case CLI_OPT_TEXTURE_SIZE:
        return texture_size(f, command, value);
    case CLI_OPT_MARGIN:
        return number(command, "--margin", value, 0, 0.01, &p->margin);
    case CLI_OPT_FILL_PERIMETER:
        return number(command, "--fill-perimeter", value, 0, 100000, &p->fill_perimeter);
    case CLI_OPT_NO_REMESH:
        p->no_remesh = 1;
        return 0;
    case CLI_OPT_REMESH_RES:
        return remesh_resolution(f, command, value);
    case CLI_OPT_BAND:
        return number(command, "--band", value, 0.5, 8, &p->band);
    case CLI_OPT_PROJECT:
        return number(command, "--project", value, 0, 1, &p->project);
    case CLI_OPT_KEEP_INNER:
        p->keep_inner = 1;
        return 0;
    case CLI_OPT_SOLID:
        p->solid = 1;
        return 0;
    case CLI_OPT_MIN_COMPONENT:
        return number(command, "--min-component", value, 0, 100, &p->min_component);
    case CLI_OPT_REMOVE_FLOATERS:
        return number(command, "--remove-floaters", value, 0, 1, &p->remove_floaters);
    case CLI_OPT_BOX_UV:
        p->box_uv = 1;
        return 0;
    case CLI_OPT_PADDING:
        return number(command, "--padding", value, 0, 64, &p->padding);
    case CLI_OPT_GUTTER:
        status = ONE_OF("--gutter", gutters, "nearest, telea", &choice);
        p->telea = choice;
        return status;
    case CLI_OPT_DESPECKLE:
        return whole(command, "--despeckle", value, 0, 256, &p->despeckle);
    case CLI_OPT_NORMAL_MAP:
        p->normal_map = 1;
        return 0;
    case CLI_OPT_AO:
        return whole(command, "--ao", value, 1, 1024, &p->occlusion_rays);
    case CLI_OPT_ALPHA:
        status = ONE_OF("--alpha", alphas, "auto, opaque, mask, blend", &choice);
        p->alpha = (espalier_alpha)choice;
        return status;
    case CLI_OPT_TEXTURE_FORMAT:
        status = ONE_OF("--texture-format", formats, "png, jpeg, webp", &choice);
        f->save.texture_format = (espalier_texture_format)choice;
        return status;
    case CLI_OPT_JPEG_QUALITY:
        return whole(command, "--jpeg-quality", value, 1, 100, &f->save.jpeg_quality);
    default:
        return number(command, "--size-mm", value, 0.001, 1e6, &f->save.size_mm);
    }
}
