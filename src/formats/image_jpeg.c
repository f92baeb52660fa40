/* SPDX-License-Identifier: MIT
 *
 * image_jpeg.c: JPEG in through libjpeg-turbo, pinned to the accurate integer DCT and triangle-filter chroma upsampling so that every
 * machine gets the same pixels. CMYK and YCCK become RGB without a profile, as Pillow does it. Damage that libjpeg would paint over is an
 * error.
 *
 * libjpeg reports errors by longjmp. Everything that may jump runs inside guarded(), which keeps no locals; all state is in the job.
 */
#include "formats/exif.h"
#include "formats/image_codecs.h"

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

enum {
    MAX_SCANS = 500,               /* real progressive files have about ten; each one costs a pass over the whole picture */
    EXIF_MARKER = JPEG_APP0 + 1,
    PROFILE_MARKER = JPEG_APP0 + 2
};

typedef struct jpeg_job {
    espalier_context *ctx;
    const char *name;
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    espalier_status status;        /* why the job stopped; ESPALIER_OK while it runs */
    char message[JMSG_LENGTH_MAX]; /* libjpeg's words, or ours */
    const uint8_t *bytes;
    size_t len_bytes;
    espalier_image *out;
    uint8_t *cmyk_row;
    int orientation;
} jpeg_job;

typedef void (*jpeg_job_fn)(jpeg_job *job);

static bool guarded(jpeg_job *job, jpeg_job_fn fn)
{
    if (setjmp(job->jump) == 0) fn(job);
    return job->status == ESPALIER_OK;
}

static void stop(jpeg_job *job, espalier_status status, const char *message)
{
    job->status = status;
    if (message != job->message) snprintf(job->message, sizeof job->message, "%s", message);
    longjmp(job->jump, 1);
}

static void on_error(j_common_ptr codec)
{
    jpeg_job *job = codec->client_data;
    int code = codec->err->msg_code;
    codec->err->format_message(codec, job->message);
    if (code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE) stop(job, ESPALIER_ERR_RESOURCE, "not enough memory");
    if (code == JERR_IMAGE_TOO_BIG) {             /* libjpeg's own limit, 65500; ours has the better message if it is lower */
        espalier_status st = esi_image_check_size(job->ctx, job->codec.image_width, job->codec.image_height, job->name);
        stop(job, ESPALIER_ERR_RESOURCE, st == ESPALIER_OK ? job->message : "");
    }
    stop(job, ESPALIER_ERR_INPUT, job->message);
}

/* Warnings after which libjpeg would go on with invented pixels. */
static bool is_damage(int code)
{
    switch (code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
        return true;
    default:
        return false;
    }
}

static void on_message(j_common_ptr codec, int level)
{
    jpeg_job *job = codec->client_data;
    if (level >= 0) return;                      /* trace, not a warning */
    codec->err->format_message(codec, job->message);
    if (is_damage(codec->err->msg_code)) stop(job, ESPALIER_ERR_INPUT, job->message);
    esi_log(job->ctx, ESPALIER_LOG_WARNING, "%s: libjpeg: %s", job->name, job->message);
}

static void on_output(j_common_ptr codec)
{
    (void)codec;                                 /* the library never prints */
}

/* Called by libjpeg between rows of every scan. */
static void on_progress(j_common_ptr codec)
{
    jpeg_job *job = codec->client_data;
    if (job->codec.input_scan_number > MAX_SCANS) stop(job, ESPALIER_ERR_INPUT, "too many scans");
    if (esi_cancel_requested(job->ctx)) stop(job, esi_check_cancel(job->ctx), "");
}

static void read_markers(jpeg_job *job)
{
    static const uint8_t exif[6] = {'E', 'x', 'i', 'f', 0, 0};
    bool have_exif = false, have_profile = false;

    for (jpeg_saved_marker_ptr m = job->codec.marker_list; m != NULL; m = m->next) {
        if (m->marker == EXIF_MARKER && !have_exif && m->data_length >= sizeof exif && memcmp(m->data, exif, sizeof exif) == 0) {
            have_exif = true;
            job->orientation = esi_exif_orientation(m->data, m->data_length);
        }
        if (m->marker == PROFILE_MARKER && m->data_length >= 11 && memcmp(m->data, "ICC_PROFILE", 11) == 0) have_profile = true;
    }
    if (have_profile) esi_log(job->ctx, ESPALIER_LOG_INFO, "%s: the colour profile is ignored", job->name);
}

/* Four inks to three lights. Adobe stores inks inverted, so a stored value is 255 - ink and the black one is the light that K lets through:
 * light = k - round(ink * k / 255), the rounding division of Pillow's Convert.c. */
static void cmyk_to_rgb(uint8_t *to, const uint8_t *from, size_t n_pixels)
{
    for (size_t i = 0; i < n_pixels; i++, to += 3, from += 4) {
        uint32_t k = from[3];
        for (int c = 0; c < 3; c++) {
            uint32_t t = (255u - from[c]) * k + 128;
            to[c] = (uint8_t)(k - (((t >> 8) + t) >> 8));
        }
    }
}

static void read_rows(jpeg_job *job)
{
    struct jpeg_decompress_struct *codec = &job->codec;
    size_t stride = (size_t)codec->output_width * 3;

    while (codec->output_scanline < codec->output_height) {
        uint8_t *to = job->out->pixels + codec->output_scanline * stride;
        JSAMPROW row = job->cmyk_row != NULL ? job->cmyk_row : to;
        if (jpeg_read_scanlines(codec, &row, 1) != 1) stop(job, ESPALIER_ERR_INPUT, "the file is cut off");
        if (job->cmyk_row != NULL) cmyk_to_rgb(to, job->cmyk_row, codec->output_width);
    }
}

static void configure(jpeg_job *job)
{
    struct jpeg_decompress_struct *codec = &job->codec;

    codec->dct_method = JDCT_ISLOW;
    codec->do_fancy_upsampling = TRUE;
    codec->do_block_smoothing = FALSE;           /* guesses at missing progressive detail, differently in each version */
    codec->out_color_space = codec->num_components == 4 ? JCS_CMYK : JCS_RGB;
    if (codec->num_components != 1 && codec->num_components != 3 && codec->num_components != 4) {
        stop(job, ESPALIER_ERR_INPUT, "neither gray, nor colour, nor CMYK");
    }
    uint64_t left = esi_memory_left(job->ctx);
    codec->mem->max_memory_to_use = (long)ESI_MIN(left, (uint64_t)LONG_MAX);
}

static void read_all(jpeg_job *job)
{
    struct jpeg_decompress_struct *codec = &job->codec;

    jpeg_create_decompress(codec);
    codec->client_data = job;
    codec->progress = &job->progress;
    jpeg_mem_src(codec, job->bytes, (unsigned long)job->len_bytes);
    jpeg_save_markers(codec, EXIF_MARKER, 0xffff);
    jpeg_save_markers(codec, PROFILE_MARKER, 16);
    if (jpeg_read_header(codec, TRUE) != JPEG_HEADER_OK) stop(job, ESPALIER_ERR_INPUT, "no picture in it");
    espalier_status st = esi_image_check_size(job->ctx, codec->image_width, codec->image_height, job->name);
    if (st != ESPALIER_OK) stop(job, st, "");
    read_markers(job);
    configure(job);

    st = esi_image_new_from_file(job->ctx, job->out, codec->image_width, codec->image_height, 3, job->name);
    if (st != ESPALIER_OK) stop(job, st, "");
    if (codec->out_color_space == JCS_CMYK) {
        job->cmyk_row = esi_alloc(job->ctx, codec->image_width, 4, "JPEG row");
        if (job->cmyk_row == NULL) stop(job, ESPALIER_ERR_RESOURCE, "");
    }
    jpeg_start_decompress(codec);
    if (codec->output_width != job->out->width || codec->output_height != job->out->height) {
        stop(job, ESPALIER_ERR_INTERNAL, "unexpected size");
    }
    read_rows(job);
    jpeg_finish_decompress(codec);
}

espalier_status esi_jpeg_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                                const char *name)
{
    jpeg_job job = {.ctx = ctx, .name = name, .bytes = bytes, .len_bytes = len_bytes, .out = out, .orientation = 1};
    espalier_status st = ESPALIER_OK;

    memset(out, 0, sizeof *out);
    if (len_bytes > ULONG_MAX) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: a JPEG this large cannot be read", name);
    job.codec.err = jpeg_std_error(&job.errors);
    job.codec.client_data = &job;                /* for an error while the codec is created */
    job.errors.error_exit = on_error;
    job.errors.emit_message = on_message;
    job.errors.output_message = on_output;
    job.progress.progress_monitor = on_progress;
    if (!guarded(&job, read_all)) {
        const char *what = job.status == ESPALIER_ERR_INPUT ? "damaged JPEG" : "cannot decode the JPEG";
        st = esi_fail(ctx, job.status, "%s: %s: %s", name, what, job.message);
        espalier_image_free(out);
    }
    jpeg_destroy_decompress(&job.codec);
    esi_free(ctx, job.cmyk_row);
    *orientation = job.orientation;
    return st;
}
