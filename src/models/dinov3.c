/* SPDX-License-Identifier: MIT
 *
 * dinov3.c: opens a DINOv3 ViT with the tensor names of Hugging Face transformers (separate q, k, v) or of timm (fused qkv). Sizes come
 * from the shapes; what shapes cannot tell comes from config.json, if there is one, or from the release.
 */
#include "models/dinov3.h"

#include <stdio.h>

#define MAX_EXTENT         (1 << 16)
#define MAX_LAYERS         1024
#define RELEASE_HEAD_DIM   64
#define RELEASE_EPS        1e-5
#define RELEASE_ROPE_THETA 100.0
#define PREFIX_LEN         96

typedef enum naming { NAMING_HF, NAMING_TIMM } naming;

/* Where the tensors are: names of the top level begin with `top`, those of layer N with `layers`N. */
typedef struct name_scheme {
    naming kind;
    char top[PREFIX_LEN], layers[PREFIX_LEN + 8];
    const char *cls, *registers, *patch; /* after `top` */
} name_scheme;

/* ------------------------------------------------------------ names */

/* Is there a tensor "<prefix><name>" whose prefix is empty or ends with a dot? Wrappers put "model." or the like in front. */
static bool find_prefix(const esi_weight_file *file, const char *name, char *prefix)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < file->count; i++) {
        const char *full = file->tensors[i].name;
        size_t n = strlen(full);
        if (n < len || strcmp(full + n - len, name) != 0) continue;
        n -= len;
        if (n >= PREFIX_LEN - 8 || (n > 0 && full[n - 1] != '.')) continue;
        memcpy(prefix, full, n);
        prefix[n] = '\0';
        return true;
    }
    return false;
}

static espalier_status find_names(espalier_context *ctx, name_scheme *s, const esi_weight_file *file)
{
    char layer_prefix[PREFIX_LEN];

    memset(s, 0, sizeof *s);
    if (find_prefix(file, "embeddings.cls_token", s->top) && find_prefix(file, "layer.0.norm1.weight", layer_prefix)) {
        s->kind = NAMING_HF;
        s->cls = "embeddings.cls_token";
        s->registers = "embeddings.register_tokens";
        s->patch = "embeddings.patch_embeddings";
        snprintf(s->layers, sizeof s->layers, "%slayer.", layer_prefix);
        return ESPALIER_OK;
    }
    if (find_prefix(file, "storage_tokens", s->top))
        return esi_fail(ctx, ESPALIER_ERR_MODEL,
                        "%s: DINOv3 in the names of its original release is not supported; use the transformers or timm file",
                        esi_weight_file_path(file));
    if (find_prefix(file, "cls_token", s->top) && find_prefix(file, "blocks.0.norm1.weight", layer_prefix)) {
        s->kind = NAMING_TIMM;
        s->cls = "cls_token";
        s->registers = "reg_token";
        s->patch = "patch_embed.proj";
        snprintf(s->layers, sizeof s->layers, "%sblocks.", layer_prefix);
        return ESPALIER_OK;
    }
    return esi_fail(ctx, ESPALIER_ERR_MODEL,
                    "%s: no DINOv3 image encoder: neither embeddings.cls_token nor cls_token with its layers is there",
                    esi_weight_file_path(file));
}

/* ------------------------------------------------------------ sizes */

static const esi_file_tensor *find_named(const esi_weight_file *file, const char *prefix, const char *name)
{
    char full[2 * PREFIX_LEN];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    return esi_weight_file_find(file, full);
}

static int64_t last_extent(const esi_file_tensor *t)
{
    return t && t->rank > 0 ? t->shape[t->rank - 1] : 0;
}

static int count_layers(const esi_weight_file *file, const name_scheme *s)
{
    char name[64];
    int n = 0;

    for (; n < MAX_LAYERS; n++) {
        snprintf(name, sizeof name, "%d.norm1.weight", n);
        if (!find_named(file, s->layers, name)) break;
    }
    return n;
}

static espalier_status config_from_shapes(espalier_context *ctx, esi_dinov3_config *c, const esi_weight_file *file, const name_scheme *s)
{
    const esi_file_tensor *cls = find_named(file, s->top, s->cls), *registers = find_named(file, s->top, s->registers);
    const esi_file_tensor *up = find_named(file, s->layers, s->kind == NAMING_HF ? "0.mlp.up_proj.weight" : "0.mlp.fc1.weight");
    char patch_name[PREFIX_LEN];
    int64_t hidden = last_extent(cls), patch, mlp = up && up->rank > 0 ? up->shape[0] : 0, tokens = 0;

    snprintf(patch_name, sizeof patch_name, "%s.weight", s->patch);
    patch = last_extent(find_named(file, s->top, patch_name));
    if (hidden < 1 || hidden > MAX_EXTENT || patch < 1 || patch > 256 || mlp < 1 || mlp > MAX_EXTENT)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: the class token, the patch embedding or the first MLP is missing or of absurd size",
                        esi_weight_file_path(file));
    if (registers) tokens = esi_file_tensor_count(registers) / hidden;
    if (tokens > 1024) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: too many register tokens", esi_weight_file_path(file));
    c->hidden = (int)hidden;
    c->patch = (int)patch;
    c->mlp = (int)mlp;
    c->registers = (int)tokens;
    c->layers = count_layers(file, s);
    c->heads = ESI_MAX(c->hidden / RELEASE_HEAD_DIM, 1);
    c->eps = (float)RELEASE_EPS;
    c->rope_theta = RELEASE_ROPE_THETA;
    return ESPALIER_OK;
}

/* A number that both config.json and the shapes know must be the same. */
static espalier_status cross_check(espalier_context *ctx, const esi_json *config, const char *key, int from_shapes, const char *path)
{
    int64_t value;

    if (!esi_json_int(esi_json_get(config, key), &value) || value == from_shapes) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: %s is %lld, the tensors say %d", path, key, (long long)value, from_shapes);
}

static espalier_status merge_config(espalier_context *ctx, esi_dinov3_config *c, const esi_json *config, const char *path)
{
    const struct {
        const char *key;
        int value;
    } shared[] = {
        {"hidden_size", c->hidden}, {"num_hidden_layers", c->layers},      {"intermediate_size", c->mlp},
        {"patch_size", c->patch},   {"num_register_tokens", c->registers},
    };
    const char *act = "gelu";
    bool gated = false;
    int64_t heads;
    double eps = RELEASE_EPS;
    espalier_status st;

    for (size_t i = 0; i < ESI_COUNT(shared); i++) {
        st = cross_check(ctx, config, shared[i].key, shared[i].value, path);
        if (st != ESPALIER_OK) return st;
    }
    esi_json_bool(esi_json_get(config, "use_gated_mlp"), &gated);
    esi_json_string(esi_json_get(config, "hidden_act"), &act);
    if (gated || strcmp(act, "gelu") != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: only an MLP with plain GELU is supported, not %s%s", path,
                        gated ? "gated " : "", act);
    if (esi_json_int(esi_json_get(config, "num_attention_heads"), &heads)) c->heads = heads >= 1 && heads <= c->hidden ? (int)heads : 0;
    esi_json_double(esi_json_get(config, "layer_norm_eps"), &eps);
    c->eps = (float)eps;
    if (!esi_json_double(esi_json_get(config, "rope_theta"), &c->rope_theta))
        esi_json_double(esi_json_path(config, "rope_parameters.rope_theta"), &c->rope_theta);
    return ESPALIER_OK;
}

static espalier_status read_config(espalier_context *ctx, esi_dinov3_config *c, const esi_json *config, const esi_weight_file *file,
                                   const name_scheme *s)
{
    const char *path = esi_weight_file_path(file);
    esi_json *embedded = NULL;
    espalier_status st = config_from_shapes(ctx, c, file, s);

    if (st != ESPALIER_OK) return st;
    if (!config && file->config_json) {
        st = esi_json_parse(ctx, &embedded, file->config_json, strlen(file->config_json), path, ESPALIER_ERR_MODEL);
        if (st != ESPALIER_OK) return st;
        config = embedded;
    }
    if (config) st = merge_config(ctx, c, config, path);
    esi_json_free(embedded);
    if (st != ESPALIER_OK) return st;
    if (c->heads < 1 || c->hidden % c->heads != 0 || (c->hidden / c->heads) % 4 != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL,
                        "%s: %d channels cannot be split into heads of a multiple of 4 channels (config: num_attention_heads)", path,
                        c->hidden);
    if (!(c->eps > 0.0f && c->eps < 1.0f) || !(c->rope_theta > 0.0 && c->rope_theta < 1e9))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: layer_norm_eps or rope_theta is absurd", path);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ tensors */

/* Vector or matrix `name` of layer i; with cols of a weight known, its optional or mandatory bias beside it. */
static espalier_status get_linear(espalier_context *ctx, esi_dinov3 *m, dinov3_linear *l, int64_t out, int64_t in, bool bias_needed,
                                  const name_scheme *s, int i, const char *name)
{
    espalier_status st = esi_weights_get(ctx, m->weights, &l->weight, out, in, "%s%d.%s.weight", s->layers, i, name);

    if (st != ESPALIER_OK) return st;
    if (bias_needed) return esi_weights_get(ctx, m->weights, &l->bias, 1, out, "%s%d.%s.bias", s->layers, i, name);
    return esi_weights_get_optional(ctx, m->weights, &l->bias, 1, out, "%s%d.%s.bias", s->layers, i, name);
}

/* Names that differ only in spelling between the two schemes. */
typedef struct layer_names {
    const char *o, *up, *down, *scale1, *scale2;
} layer_names;
static const layer_names hf_names = {"attention.o_proj", "mlp.up_proj", "mlp.down_proj", "layer_scale1.lambda1", "layer_scale2.lambda1"};
static const layer_names timm_names = {"attn.proj", "mlp.fc1", "mlp.fc2", "gamma_1", "gamma_2"};

static espalier_status get_vectors(espalier_context *ctx, esi_dinov3 *m, dinov3_layer *l, const name_scheme *s, const layer_names *names,
                                   int i)
{
    const struct {
        esi_tensor *tensor;
        const char *name;
    } wanted[] = {
        {&l->norm1_weight, "norm1.weight"}, {&l->norm1_bias, "norm1.bias"}, {&l->norm2_weight, "norm2.weight"},
        {&l->norm2_bias, "norm2.bias"},     {&l->scale1, names->scale1},    {&l->scale2, names->scale2},
    };

    for (size_t k = 0; k < ESI_COUNT(wanted); k++) {
        espalier_status st =
            esi_weights_get(ctx, m->weights, wanted[k].tensor, 1, m->config.hidden, "%s%d.%s", s->layers, i, wanted[k].name);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status get_split_qkv(espalier_context *ctx, esi_dinov3 *m, dinov3_layer *l, const name_scheme *s, int i)
{
    const int64_t D = m->config.hidden;
    espalier_status st = get_linear(ctx, m, &l->q, D, D, false, s, i, "attention.q_proj");

    if (st != ESPALIER_OK) return st;
    st = get_linear(ctx, m, &l->k, D, D, false, s, i, "attention.k_proj");
    if (st != ESPALIER_OK) return st;
    return get_linear(ctx, m, &l->v, D, D, false, s, i, "attention.v_proj");
}

/* Rows [0, D) of the fused matrix are q, then k, then v. The bias is one vector of 3D, or two of q and v, or none. */
static espalier_status get_fused_qkv(espalier_context *ctx, esi_dinov3 *m, dinov3_layer *l, const name_scheme *s, int i)
{
    const int64_t D = m->config.hidden;
    dinov3_linear *const parts[3] = {&l->q, &l->k, &l->v};
    const char *const bias_names[3] = {"q_bias", "k_bias", "v_bias"};
    dinov3_linear qkv;
    espalier_status st = get_linear(ctx, m, &qkv, 3 * D, D, false, s, i, "attn.qkv");

    if (st != ESPALIER_OK) return st;
    for (int p = 0; p < 3; p++) {
        parts[p]->weight = esi_rows(qkv.weight, p * D, D);
        if (!esi_tensor_is_null(qkv.bias)) {
            parts[p]->bias = esi_rows(esi_reshape(qkv.bias, 3, D), p, 1);
            continue;
        }
        st = esi_weights_get_optional(ctx, m->weights, &parts[p]->bias, 1, D, "%s%d.attn.%s", s->layers, i, bias_names[p]);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status get_layer(espalier_context *ctx, esi_dinov3 *m, const name_scheme *s, int i)
{
    const int64_t D = m->config.hidden, M = m->config.mlp;
    const layer_names *names = s->kind == NAMING_HF ? &hf_names : &timm_names;
    dinov3_layer *l = &m->layers[i];
    espalier_status st;

    st = s->kind == NAMING_HF ? get_split_qkv(ctx, m, l, s, i) : get_fused_qkv(ctx, m, l, s, i);
    if (st != ESPALIER_OK) return st;
    st = get_linear(ctx, m, &l->o, D, D, true, s, i, names->o);
    if (st != ESPALIER_OK) return st;
    st = get_linear(ctx, m, &l->up, M, D, true, s, i, names->up);
    if (st != ESPALIER_OK) return st;
    st = get_linear(ctx, m, &l->down, D, M, true, s, i, names->down);
    if (st != ESPALIER_OK) return st;
    return get_vectors(ctx, m, l, s, names, i);
}

static espalier_status get_tensors(espalier_context *ctx, esi_dinov3 *m, const name_scheme *s)
{
    const esi_dinov3_config *c = &m->config;
    esi_weights *w = m->weights;
    espalier_status st;

    st = esi_weights_get(ctx, w, &m->cls, 1, c->hidden, "%s%s", s->top, s->cls);
    if (st != ESPALIER_OK) return st;
    if (c->registers > 0) {
        st = esi_weights_get(ctx, w, &m->registers, c->registers, c->hidden, "%s%s", s->top, s->registers);
        if (st != ESPALIER_OK) return st;
    }
    st = esi_weights_get(ctx, w, &m->patch.weight, c->hidden, 3 * (int64_t)c->patch * c->patch, "%s%s.weight", s->top, s->patch);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &m->patch.bias, 1, c->hidden, "%s%s.bias", s->top, s->patch);
    if (st != ESPALIER_OK) return st;
    for (int i = 0; i < c->layers; i++) {
        st = get_layer(ctx, m, s, i);
        if (st != ESPALIER_OK) return st;
    }
    /* TRELLIS.2 normalises the tokens itself, without these weights. */
    esi_weights_ignore(w, "norm.weight");
    esi_weights_ignore(w, "norm.bias");
    esi_weights_ignore(w, "%snorm.weight", s->top);
    esi_weights_ignore(w, "%snorm.bias", s->top);
    esi_weights_ignore(w, "%sembeddings.mask_token", s->top);
    esi_weights_report_surplus(ctx, w);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ life */

espalier_status esi_dinov3_open(espalier_context *ctx, esi_dinov3 **out, esi_weight_file *file, const esi_json *config)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    const esi_weight_file *f;
    name_scheme scheme;
    esi_dinov3 *m;
    espalier_status st;

    *out = NULL;
    m = esi_raw_alloc(allocator, sizeof *m);
    if (!m) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "image encoder: out of memory");
    }
    memset(m, 0, sizeof *m);
    m->allocator = *allocator;
    st = esi_weights_new(ctx, &m->weights, file);
    if (st != ESPALIER_OK) goto done;
    f = esi_weights_file(m->weights);
    st = find_names(ctx, &scheme, f);
    if (st != ESPALIER_OK) goto done;
    st = read_config(ctx, &m->config, config, f, &scheme);
    if (st != ESPALIER_OK) goto done;
    m->layers = esi_raw_alloc(allocator, (size_t)m->config.layers * sizeof *m->layers);
    if (!m->layers) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", esi_weight_file_path(f));
        goto done;
    }
    memset(m->layers, 0, (size_t)m->config.layers * sizeof *m->layers);
    st = get_tensors(ctx, m, &scheme);
done:
    if (st != ESPALIER_OK)
        esi_dinov3_free(ctx, m);
    else
        *out = m;
    return st;
}

void esi_dinov3_free(espalier_context *ctx, esi_dinov3 *m)
{
    espalier_allocator allocator;

    if (!m) return;
    allocator = m->allocator;
    if (m->layers) esi_raw_free(&allocator, m->layers, (size_t)m->config.layers * sizeof *m->layers);
    esi_weights_free(ctx, m->weights);
    esi_raw_free(&allocator, m, sizeof *m);
}

const esi_dinov3_config *esi_dinov3_get_config(const esi_dinov3 *m)
{
    return &m->config;
}

esi_weights *esi_dinov3_weights(esi_dinov3 *m)
{
    return m->weights;
}
