/* SPDX-License-Identifier: MIT
 *
 * image_encode.c: pictures -> JPEG and WebP in memory, through libjpeg-turbo and libwebp (PNG: png_encode.c). Settings are fixed, so that
 * the same pixels give the same bytes as long as the libraries stay the same.
 *
 * libjpeg reports errors by longjmp. Everything that may jump runs inside a function that keeps no locals across it; all state is in the
 * job.
 */
#include "formats/image_encode.h"

#ifdef ESPALIER_HAVE_IMAGES

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>
#include <webp/encode.h>

#define GROW ((size_t)256 << 10)

/* What comes out. */
typedef struct byte_sink {
    espalier_context *ctx;
    uint8_t *data;
    size_t size, capacity;
} byte_sink;

static bool sink_reserve(byte_sink *s, size_t more)
{
    size_t capacity;
    uint8_t *data;

    if (more <= s->capacity - s->size) return true;
    if (!esi_add_size(&capacity, s->size, more) || !esi_add_size(&capacity, capacity, s->capacity / 2 + GROW)) return false;
    data = esi_realloc(s->ctx, s->data, capacity, 1, "an encoded picture");
    if (!data) return false;
    s->data = data;
    s->capacity = capacity;
    return true;
}

static bool sink_write(byte_sink *s, const uint8_t *bytes, size_t size)
{
    if (!sink_reserve(s, size)) return false;
    memcpy(s->data + s->size, bytes, size);
    s->size += size;
    return true;
}

static espalier_status finish(byte_sink *s, uint8_t **out, size_t *size, espalier_status st, const char *format, const char *message)
{
    *out = NULL;
    *size = 0;
    if (st != ESPALIER_OK) {
        esi_free(s->ctx, s->data);
        return esi_fail(s->ctx, st, "cannot encode a picture as %s: %s", format, message);
    }
    *out = s->data;
    *size = s->size;
    return ESPALIER_OK;
}

static espalier_status check_picture(espalier_context *ctx, const esi_texture *p, uint32_t channels_from, uint32_t side)
{
    if (!p->pixels || p->width == 0 || p->height == 0 || p->channels < channels_from || p->channels > 4)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "a picture of %u x %u with %u channels cannot be encoded", p->width, p->height,
                        p->channels);
    if (p->width > side || p->height > side)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "a picture of %u x %u is over the format's limit of %u", p->width, p->height, side);
    return ESPALIER_OK;
}

/* -------------------------------------------------------------------- JPEG */

typedef struct jpeg_encoder {
    byte_sink sink;
    const esi_texture *picture;
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    espalier_status status;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row;                  /* without alpha */
    int quality;
} jpeg_encoder;

static void jpeg_stop(jpeg_encoder *e, espalier_status status)
{
    if (e->status == ESPALIER_OK) e->status = status;
    longjmp(e->jump, 1);
}

static void on_jpeg_error(j_common_ptr codec)
{
    jpeg_encoder *e = codec->client_data;

    codec->err->format_message(codec, e->message);
    jpeg_stop(e, codec->err->msg_code == JERR_OUT_OF_MEMORY ? ESPALIER_ERR_RESOURCE : ESPALIER_ERR_INTERNAL);
}

static void on_jpeg_message(j_common_ptr codec, int level)
{
    (void)codec, (void)level;
}

static void on_jpeg_output(j_common_ptr codec)
{
    (void)codec;
}

/* The library writes into what is left of the sink. */
static void offer_room(jpeg_encoder *e)
{
    if (!sink_reserve(&e->sink, GROW)) jpeg_stop(e, ESPALIER_ERR_RESOURCE);
    e->destination.next_output_byte = e->sink.data + e->sink.size;
    e->destination.free_in_buffer = e->sink.capacity - e->sink.size;
}

static void on_jpeg_start(j_compress_ptr codec)
{
    offer_room(codec->client_data);
}

static boolean on_jpeg_full(j_compress_ptr codec)
{
    jpeg_encoder *e = codec->client_data;

    e->sink.size = e->sink.capacity;             /* whatever free_in_buffer says, the library means all of it */
    offer_room(e);
    return TRUE;
}

static void on_jpeg_end(j_compress_ptr codec)
{
    jpeg_encoder *e = codec->client_data;

    e->sink.size = e->sink.capacity - e->destination.free_in_buffer;
}

static void jpeg_settings(jpeg_encoder *e)
{
    struct jpeg_compress_struct *c = &e->codec;

    jpeg_create_compress(c);
    c->client_data = e;
    e->destination = (struct jpeg_destination_mgr){.init_destination = on_jpeg_start, .empty_output_buffer = on_jpeg_full,
                                                   .term_destination = on_jpeg_end};
    c->dest = &e->destination;
    c->image_width = e->picture->width;
    c->image_height = e->picture->height;
    c->input_components = e->picture->channels == 1 ? 1 : 3;
    c->in_color_space = e->picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, e->quality, TRUE);
    c->dct_method = JDCT_ISLOW;
    c->optimize_coding = TRUE;
    for (int i = 0; i < c->num_components; i++) {      /* colours change at chart borders: no subsampling */
        c->comp_info[i].h_samp_factor = 1;
        c->comp_info[i].v_samp_factor = 1;
    }
}

static void run_jpeg(jpeg_encoder *e)
{
    const esi_texture *p = e->picture;

    if (setjmp(e->jump) != 0) return;
    jpeg_settings(e);
    jpeg_start_compress(&e->codec, TRUE);
    for (uint32_t y = 0; y < p->height; y++) {
        JSAMPROW row = p->pixels + (size_t)y * p->width * p->channels;

        if (p->channels == 4) {
            for (uint32_t x = 0; x < p->width; x++) memcpy(e->row + 3 * (size_t)x, row + 4 * (size_t)x, 3);
            row = e->row;
        }
        (void)jpeg_write_scanlines(&e->codec, &row, 1);
        if ((y & 63) == 0 && esi_cancel_requested(e->sink.ctx)) jpeg_stop(e, esi_check_cancel(e->sink.ctx));
    }
    jpeg_finish_compress(&e->codec);
}

espalier_status esi_jpeg_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, int quality)
{
    jpeg_encoder e = {.sink = {.ctx = ctx}, .picture = picture, .quality = ESI_MIN(ESI_MAX(quality, 1), 100)};
    espalier_status st = check_picture(ctx, picture, 1, JPEG_MAX_DIMENSION);

    *out = NULL;
    if (st == ESPALIER_OK && picture->channels == 2) st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "a picture of 2 channels cannot be a JPEG");
    if (st != ESPALIER_OK) return st;
    e.row = esi_alloc(ctx, picture->width, 3, "JPEG codec");
    if (!e.row) return ESPALIER_ERR_RESOURCE;
    e.codec.err = jpeg_std_error(&e.errors);
    e.errors.error_exit = on_jpeg_error;
    e.errors.emit_message = on_jpeg_message;
    e.errors.output_message = on_jpeg_output;
    e.codec.client_data = &e;
    run_jpeg(&e);
    jpeg_destroy_compress(&e.codec);
    esi_free(ctx, e.row);
    return finish(&e.sink, out, size, e.status, "JPEG", e.message);
}

/* -------------------------------------------------------------------- WebP */

static int on_webp_write(const uint8_t *bytes, size_t size, const WebPPicture *picture)
{
    return sink_write(picture->custom_ptr, bytes, size);
}

static int on_webp_progress(int percent, const WebPPicture *picture)
{
    (void)percent;
    return !esi_cancel_requested(((byte_sink *)picture->custom_ptr)->ctx);
}

static bool webp_settings(WebPConfig *config, bool lossless, int quality)
{
    if (!WebPConfigInit(config)) return false;
    config->quality = (float)ESI_MIN(ESI_MAX(quality, 1), 100);
    if (lossless && !WebPConfigLosslessPreset(config, 1)) return false;      /* higher ones take minutes for large atlases */
    config->exact = 1;
    return WebPValidateConfig(config) != 0;
}

static espalier_status webp_status(espalier_context *ctx, WebPEncodingError code)
{
    if (esi_cancel_requested(ctx)) return esi_check_cancel(ctx);
    switch (code) {
    case VP8_ENC_ERROR_OUT_OF_MEMORY:
    case VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY:
    case VP8_ENC_ERROR_BAD_WRITE: return ESPALIER_ERR_RESOURCE;
    default: return ESPALIER_ERR_INTERNAL;
    }
}

espalier_status esi_webp_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, bool lossless, int quality)
{
    byte_sink sink = {.ctx = ctx};
    WebPConfig config;
    WebPPicture p;
    espalier_status st = check_picture(ctx, picture, 3, WEBP_MAX_DIMENSION);
    const int stride = (int)(picture->width * picture->channels);
    int ok;

    *out = NULL;
    if (st != ESPALIER_OK) return st;
    if (!webp_settings(&config, lossless, quality) || !WebPPictureInit(&p))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "unexpected version of libwebp");
    p.use_argb = 1;
    p.width = (int)picture->width;
    p.height = (int)picture->height;
    p.writer = on_webp_write;
    p.custom_ptr = &sink;
    p.progress_hook = on_webp_progress;
    ok = picture->channels == 4 ? WebPPictureImportRGBA(&p, picture->pixels, stride) : WebPPictureImportRGB(&p, picture->pixels, stride);
    ok = ok && WebPEncode(&config, &p);
    st = ok ? ESPALIER_OK : webp_status(ctx, p.error_code);
    WebPPictureFree(&p);
    return finish(&sink, out, size, st, "WebP", "the codec refuses");
}

#else

static espalier_status fail_core(espalier_context *ctx, uint8_t **out, size_t *size)
{
    *out = NULL;
    *size = 0;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "this build has no image codecs");
}

espalier_status esi_png_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture)
{
    (void)picture;
    return fail_core(ctx, out, size);
}

espalier_status esi_jpeg_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, int quality)
{
    (void)picture, (void)quality;
    return fail_core(ctx, out, size);
}

espalier_status esi_webp_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, bool lossless, int quality)
{
    (void)picture, (void)lossless, (void)quality;
    return fail_core(ctx, out, size);
}

#endif
