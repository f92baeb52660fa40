/* SPDX-License-Identifier: MIT
 *
 * cut.c: choosing where a picture's alpha comes from, and cutting its object out. The choice depends on the options, the files that are
 * there and whether the picture has transparency, on nothing else; every one is logged with its reason.
 */
#include "pipeline/cut.h"

#include "base/context.h"
#include "formats/cutout.h"
#include "formats/image_codecs.h"
#include "models/matting_files.h"
#include "pipeline/stages.h"

static const char *const matte_names[] = {"alpha", "none", "auto", "birefnet", "isnet", "u2net", "u2netp", "threshold"};

const char *espalier_matte_name(espalier_matte matte)
{
    return (size_t)matte < ESI_COUNT(matte_names) ? matte_names[matte] : "?";
}

espalier_status espalier_matte_parse(espalier_matte *out, const char *name)
{
    for (size_t i = 0; out && name && i < ESI_COUNT(matte_names); i++) {
        if (strcmp(name, matte_names[i]) != 0) continue;
        *out = (espalier_matte)i;
        return ESPALIER_OK;
    }
    return ESPALIER_ERR_ARG;
}

espalier_matting_options espalier_matting_options_default(void)
{
    return (espalier_matting_options){.struct_size = sizeof(espalier_matting_options), .matte = ESPALIER_MATTE_AUTO};
}

espalier_matte_stats espalier_matte_stats_default(void)
{
    return (espalier_matte_stats){.struct_size = sizeof(espalier_matte_stats)};
}

static bool is_network(espalier_matte matte)
{
    return matte >= ESPALIER_MATTE_BIREFNET && matte <= ESPALIER_MATTE_U2NETP;
}

/* --------------------------------------------------------------- the network */

/* Messages go to ctx, memory on the matting's own account. */
static espalier_status open_network(espalier_context *ctx, espalier_matting *m)
{
    if (m->network) return ESPALIER_OK;
    esi_clear_error(m->owner);
    espalier_status st = esi_matting_open(m->owner, &m->network, m->network_file);
    if (st == ESPALIER_OK && m->wanted != ESPALIER_MATTE_AUTO && esi_matting_network(m->network) != m->wanted) {
        st = esi_fail(m->owner, ESPALIER_ERR_MODEL, "%s: holds %s, not the %s that was asked for", m->network_file,
                      esi_matting_name(m->network), espalier_matte_name(m->wanted));
        esi_matting_free(m->owner, m->network);
        m->network = NULL;
    }
    return st == ESPALIER_OK ? st : esi_copy_error(ctx, m->owner, st);
}

/* The file of `network`, or m->network_file stays NULL. */
static espalier_status look_for(espalier_context *ctx, espalier_matting *m, const char *const *directories, espalier_matte network)
{
    espalier_status st = esi_matting_file_find(m->owner, &m->arena, &m->network_file, directories, network);
    m->wanted = network;
    return st == ESPALIER_OK ? st : esi_copy_error(ctx, m->owner, st);
}

static espalier_status fail_missing(espalier_context *ctx, const espalier_matting *m)
{
    const char *wanted = esi_matting_file_wanted(m->matte), *network = espalier_matte_name(m->matte);
    if (!m->directory)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: no directory was given to look for %s in; name the file with --matte-model", network,
                        wanted);
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: no weights of %s; add %s, or name the file with --matte-model", m->directory, network,
                    wanted);
}

static espalier_status find_network(espalier_context *ctx, espalier_matting *m, const espalier_matting_options *o)
{
    espalier_status st = ESPALIER_OK;

    if (o->directories && o->directories[0]) {
        m->directory = esi_arena_strdup(m->owner, &m->arena, o->directories[0], strlen(o->directories[0]));
        if (!m->directory) return esi_copy_error(ctx, m->owner, ESPALIER_ERR_RESOURCE);
    }
    if (o->network_file) {
        m->network_file = esi_arena_strdup(m->owner, &m->arena, o->network_file, strlen(o->network_file));
        m->wanted = o->matte;
        return m->network_file ? open_network(ctx, m) : esi_copy_error(ctx, m->owner, ESPALIER_ERR_RESOURCE);
    }
    if (is_network(o->matte)) {
        st = look_for(ctx, m, o->directories, o->matte);
        if (st == ESPALIER_OK) st = m->network_file ? open_network(ctx, m) : fail_missing(ctx, m);
    } else if (o->matte == ESPALIER_MATTE_AUTO) {
        for (size_t i = 0; st == ESPALIER_OK && i < ESI_MATTING_NETWORKS && !m->network_file; i++)
            st = look_for(ctx, m, o->directories, esi_matting_networks[i]);
    }
    return st;
}

/* ----------------------------------------------------------------- life */

static espalier_status check_options(espalier_context *ctx, const espalier_matting_options *o)
{
    if ((size_t)o->matte >= ESI_COUNT(matte_names)) return esi_fail(ctx, ESPALIER_ERR_ARG, "unknown matte %d", (int)o->matte);
    if (o->over_alpha < 0 || o->over_alpha > 1 || o->keep_largest < 0 || o->keep_largest > 1)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matting options over_alpha and keep_largest are 0 or 1");
    if (o->over_alpha && o->matte == ESPALIER_MATTE_ALPHA)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matte alpha takes the picture's transparency; over_alpha would take it away");
    if (o->network_file && o->matte != ESPALIER_MATTE_AUTO && !is_network(o->matte))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matte %s uses no network, but %s is named as one", espalier_matte_name(o->matte),
                        o->network_file);
    return ESPALIER_OK;
}

/* A shorter struct of an older header keeps the rest of the defaults. */
static espalier_status read_options(espalier_context *ctx, espalier_matting_options *known, const espalier_matting_options *options)
{
    *known = espalier_matting_options_default();
    if (!options) return ESPALIER_OK;
    if (options->struct_size < sizeof options->struct_size)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matting options without struct_size; start from espalier_matting_options_default()");
    memcpy(known, options, ESI_MIN((size_t)options->struct_size, sizeof *known));
    return check_options(ctx, known);
}

static espalier_status create(espalier_context *ctx, espalier_matting **out, const espalier_matting_options *o)
{
    espalier_context *owner = NULL;
    espalier_status st = espalier_context_create(&owner, ctx->runtime);

    if (st != ESPALIER_OK) return esi_fail(ctx, st, "out of memory for matting");
    espalier_matting *m = esi_calloc(owner, 1, sizeof *m, "matting");
    if (!m) {
        st = esi_copy_error(ctx, owner, ESPALIER_ERR_RESOURCE);
        espalier_context_free(owner);
        return st;
    }
    m->owner = owner;
    m->matte = o->matte;
    m->over_alpha = o->over_alpha != 0;
    m->keep_largest = o->keep_largest != 0;
    st = find_network(ctx, m, o);
    if (st == ESPALIER_OK)
        *out = m;
    else
        espalier_matting_free(m);
    return st;
}

espalier_status espalier_matting_create(espalier_context *ctx, espalier_matting **out, const espalier_matting_options *options)
{
    espalier_matting_options known;
    esi_fp_state fp;

    if (out) *out = NULL;
    if (!ctx || !out) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = read_options(ctx, &known, options);
    if (st == ESPALIER_OK) st = create(ctx, out, &known);
    return esi_leave(ctx, &fp, st);
}

void espalier_matting_free(espalier_matting *matting)
{
    if (!matting) return;
    espalier_context *owner = matting->owner;
    esi_matting_free(owner, matting->network);
    esi_arena_free(owner, &matting->arena);
    esi_free(owner, matting);
    espalier_context_free(owner);
}

/* --------------------------------------------------------------- the choice */

static const char *const by_alpha = "the picture has transparency";
static const char *const by_alpha_all_the_same = "the picture has transparency, which wins unless --matte-over-alpha is given";
static const char *const as_asked = "as asked for";
static const char *const file_named = "its file was named";
static const char *const best_found = "the picture has no transparency, and this is the best network found";
static const char *const best_over_alpha = "the picture's transparency is set aside as asked for, and this is the best network found";

static espalier_status fail_no_network(espalier_context *ctx, const espalier_matting *m, const char *name, bool transparent)
{
    const char *why = transparent ? "its transparency is to be set aside" : "the picture has no transparency";
    return esi_fail(ctx, ESPALIER_ERR_INPUT,
                    "%s: %s, and there is no network to cut the object out; add %s (or %s, %s, %s) to %s, name a file with --matte-model, "
                    "or take the picture whole with --matte none",
                    name, why, esi_matting_file_wanted(ESPALIER_MATTE_BIREFNET), esi_matting_file_wanted(ESPALIER_MATTE_ISNET),
                    esi_matting_file_wanted(ESPALIER_MATTE_U2NET), esi_matting_file_wanted(ESPALIER_MATTE_U2NETP),
                    m->directory ? m->directory : "the model directory");
}

static espalier_status choose_network(espalier_context *ctx, esi_cut *cut, bool transparent)
{
    espalier_matting *m = cut->matting;

    if (!m->network_file) return fail_no_network(ctx, m, cut->name, transparent);
    espalier_status st = open_network(ctx, m);
    if (st != ESPALIER_OK) return st;
    cut->stats.used = esi_matting_network(m->network);
    cut->stats.network_file = m->network_file;
    if (m->matte != ESPALIER_MATTE_AUTO)
        cut->stats.reason = as_asked;
    else if (m->wanted == ESPALIER_MATTE_AUTO)
        cut->stats.reason = file_named;
    else
        cut->stats.reason = transparent ? best_over_alpha : best_found;
    return ESPALIER_OK;
}

static espalier_status choose(espalier_context *ctx, esi_cut *cut, bool transparent)
{
    const espalier_matting *m = cut->matting;
    const espalier_matte matte = m ? m->matte : ESPALIER_MATTE_ALPHA;

    if (transparent && !(m && m->over_alpha)) {
        cut->stats.used = ESPALIER_MATTE_ALPHA;
        cut->stats.reason = matte == ESPALIER_MATTE_ALPHA || matte == ESPALIER_MATTE_AUTO ? by_alpha : by_alpha_all_the_same;
        return ESPALIER_OK;
    }
    if (matte == ESPALIER_MATTE_ALPHA)
        return esi_fail(ctx, ESPALIER_ERR_INPUT,
                        "%s: the picture has no transparency; cut the object out first, or take it whole with --matte none", cut->name);
    if (matte != ESPALIER_MATTE_NONE && matte != ESPALIER_MATTE_THRESHOLD) return choose_network(ctx, cut, transparent);
    cut->stats.used = matte;
    cut->stats.reason = as_asked;
    return ESPALIER_OK;
}

/* ----------------------------------------------------------------- the work */

/* The picture and the network stand before what the network said. */
static espalier_status blame(espalier_context *ctx, const esi_cut *cut, espalier_status st)
{
    char text[sizeof ctx->error_text];

    if (st == ESPALIER_OK || st == ESPALIER_ERR_CANCELLED) return st;
    memcpy(text, espalier_error_message(ctx), sizeof text);
    esi_clear_error(ctx);
    return esi_fail(ctx, st, "%s: matting with %s: %s", cut->name, esi_matting_name(cut->matting->network), text);
}

static espalier_status by_network(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    const esi_cut *cut = user;
    const esi_stage_table *stages = esi_stages(ctx);
    esi_matting *network = cut->matting->network;

    espalier_status st =
        stages->matte ? stages->matte(stages->user, ctx, network, rgb, mask) : esi_matting_mask(ctx, network, rgb, 0, mask);
    return blame(ctx, cut, st);
}

static espalier_status by_threshold(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    const esi_cut *cut = user;
    double white = 0;

    espalier_status st = esi_cutout_threshold(ctx, mask, rgb, &white);
    if (st == ESPALIER_OK && white == 0)
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no white backdrop: no pixel of the border has %d or more in all channels", cut->name,
                      ESI_CUTOUT_WHITE);
    return st;
}

static bool has_foreground(const espalier_image *rgba)
{
    for (size_t i = 3, size = esi_image_size(rgba); i < size; i += 4)
        if (rgba->pixels[i] > ESI_FOREGROUND_ALPHA) return true;
    return false;
}

static espalier_status keep_largest(espalier_context *ctx, esi_cut *cut, espalier_image *rgba)
{
    esi_cutout_dropped dropped;

    espalier_status st = esi_cutout_keep_largest(ctx, rgba, &dropped);
    cut->stats.dropped_parts = (int64_t)dropped.parts;
    cut->stats.dropped = dropped.share;
    if (st == ESPALIER_OK && dropped.parts > 0)
        esi_log(ctx, ESPALIER_LOG_INFO, "%s: %lld smaller parts dropped, %.1f %% of the matte", cut->name, (long long)dropped.parts,
                100 * dropped.share);
    return st;
}

static espalier_status examine(void *user, espalier_context *ctx, espalier_image *rgba)
{
    esi_cut *cut = user;
    espalier_matte_stats *s = &cut->stats;
    esi_cutout_stats c;
    espalier_status st = ESPALIER_OK;

    if (cut->matting && cut->matting->keep_largest) st = keep_largest(ctx, cut, rgba);
    if (st == ESPALIER_OK && !has_foreground(rgba))
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no foreground: no pixel has alpha above %d", cut->name, ESI_FOREGROUND_ALPHA);
    if (st == ESPALIER_OK) st = esi_cutout_measure(ctx, &c, rgba);
    if (st != ESPALIER_OK) return st;
    s->coverage = c.coverage;
    s->border = c.border;
    s->centre = c.centre;
    s->soft = c.soft;
    s->parts = (int64_t)c.parts;
    s->large_parts = (int64_t)c.large_parts;
    s->largest_part = c.largest_part;
    esi_cut_warn(ctx, s, cut->name);
    return ESPALIER_OK;
}

espalier_status esi_cut_begin(espalier_context *ctx, esi_cut *cut, esi_matte_source *source, const espalier_image *picture)
{
    if (!cut->name) cut->name = "picture";
    cut->stats = espalier_matte_stats_default();
    *source = (esi_matte_source){.check = examine, .user = cut, .name = cut->name};
    if (!picture->pixels || (picture->channels != 3 && picture->channels != 4))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: not an RGB or RGBA picture", cut->name);

    espalier_status st = choose(ctx, cut, espalier_image_has_alpha(picture) != 0);
    if (st != ESPALIER_OK) return st;
    source->over_alpha = cut->matting && cut->matting->over_alpha;
    source->opaque = cut->stats.used == ESPALIER_MATTE_NONE;
    if (is_network(cut->stats.used)) source->fn = by_network;
    if (cut->stats.used == ESPALIER_MATTE_THRESHOLD) source->fn = by_threshold;
    const char *file = cut->stats.network_file;
    esi_log(ctx, ESPALIER_LOG_INFO, "%s: matte by %s%s%s%s: %s", cut->name, espalier_matte_name(cut->stats.used), file ? " (" : "",
            file ? file : "", file ? ")" : "", cut->stats.reason);
    return ESPALIER_OK;
}

static espalier_status take_mask(espalier_context *ctx, espalier_image *mask, const espalier_image *rgba)
{
    espalier_status st = esi_image_new(ctx, mask, rgba->width, rgba->height, 1);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0, n = esi_image_size(mask); i < n; i++) mask->pixels[i] = rgba->pixels[4 * i + 3];
    return ESPALIER_OK;
}

espalier_status espalier_matting_cut(espalier_context *ctx, espalier_matting *matting, espalier_image *cut, espalier_image *mask,
                                     espalier_matte_stats *stats, const espalier_image *picture, const char *name)
{
    esi_cut job = {.matting = matting, .name = name};
    esi_matte_source source;
    espalier_image rgba = {0};
    esi_fp_state fp;
    espalier_status st = ESPALIER_OK;

    if (cut) memset(cut, 0, sizeof *cut);
    if (mask) memset(mask, 0, sizeof *mask);
    if (!ctx || !matting || (!cut && !mask) || !picture) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    if (stats && stats->struct_size != sizeof *stats)
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "matte numbers of another library version; start from espalier_matte_stats_default()");
    if (st == ESPALIER_OK) st = esi_progress(ctx, "matte", 0, 1);
    if (st == ESPALIER_OK) st = esi_cut_begin(ctx, &job, &source, picture);
    if (st == ESPALIER_OK) st = esi_matte_picture(ctx, &rgba, picture, &source);
    if (st == ESPALIER_OK && mask) st = take_mask(ctx, mask, &rgba);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "matte", 1, 1);
    if (stats) *stats = st == ESPALIER_OK ? job.stats : espalier_matte_stats_default();
    if (st == ESPALIER_OK && cut) {
        *cut = rgba;
        memset(&rgba, 0, sizeof rgba);
    }
    if (st != ESPALIER_OK && mask) espalier_image_free(mask);
    espalier_image_free(&rgba);
    return esi_leave(ctx, &fp, st);
}
