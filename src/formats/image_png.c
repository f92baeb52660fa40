/* SPDX-License-Identifier: MIT
 *
 * image_png.c: PNG in and out through libpng. Values come out as the file holds them (no gamma, no profile), gray and palette expanded to
 * RGB, with alpha when the file has an alpha channel or tRNS, 16 bits cut to 8 by >> 8. Of the ancillary chunks only tRNS and eXIf are
 * read; an animation shows its default picture.
 *
 * libpng reports errors by longjmp. Everything that may jump runs inside guarded(), which keeps no locals; all state is in the job, so
 * nothing can be clobbered and the callers clean up in the ordinary way.
 */
#include "formats/exif.h"
#include "formats/image_codecs.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>

typedef struct png_job {
    espalier_context *ctx;
    const char *name;
    png_struct *png;
    png_info *info;
    jmp_buf jump;
    espalier_status status;        /* why the job stopped; ESPALIER_OK while it runs */
    char message[160];             /* libpng's words */
    /* reading */
    const uint8_t *bytes;
    size_t len_bytes, position;
    espalier_image *out;
    int orientation;
    /* writing */
    const espalier_image *in;
    esi_writer *writer;
} png_job;

typedef void (*png_job_fn)(png_job *job);

/* Run fn; false if it stopped. */
static bool guarded(png_job *job, png_job_fn fn)
{
    if (setjmp(job->jump) == 0) fn(job);
    return job->status == ESPALIER_OK;
}

static void stop(png_job *job, espalier_status status, const char *message)
{
    if (job->status == ESPALIER_OK) {
        job->status = status;
        snprintf(job->message, sizeof job->message, "%s", message);
    }
    longjmp(job->jump, 1);
}

static void on_error(png_struct *png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    stop(job, job->writer != NULL ? ESPALIER_ERR_OUTPUT : ESPALIER_ERR_INPUT, message);
}

static void on_warning(png_struct *png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    if (job->status == ESPALIER_OK) esi_log(job->ctx, ESPALIER_LOG_WARNING, "%s: libpng: %s", job->name, message);
}

/* A refused allocation fails the job even where libpng would go on without an optional chunk: results must not depend on memory. It may not
 * jump, though: zlib calls this too, half-way through building its state. */
static void *on_malloc(png_struct *png, png_alloc_size_t size)
{
    png_job *job = png_get_mem_ptr(png);
    void *ptr = esi_alloc(job->ctx, 1, size, "PNG codec");
    if (ptr == NULL && job->status == ESPALIER_OK) job->status = ESPALIER_ERR_RESOURCE;
    return ptr;
}

static void on_free(png_struct *png, void *ptr)
{
    png_job *job = png_get_mem_ptr(png);
    esi_free(job->ctx, ptr);
}

static void poll_cancel(png_job *job)
{
    if (esi_cancel_requested(job->ctx)) stop(job, esi_check_cancel(job->ctx), "");
}

/* -------------------------------------------------------------- reading */

static void on_read(png_struct *png, uint8_t *to, size_t size)
{
    png_job *job = png_get_io_ptr(png);
    if (size > job->len_bytes - job->position) stop(job, ESPALIER_ERR_INPUT, "the file is cut off");
    memcpy(to, job->bytes + job->position, size);
    job->position += size;
}

static void choose_chunks(png_job *job)
{
    static const uint8_t exif_chunk[] = "eXIf";
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_AS_DEFAULT, exif_chunk, 1);
}

/* Ask for 8-bit RGB or RGBA and return the channels that this gives. */
static uint32_t choose_transforms(png_job *job)
{
    int color_type = png_get_color_type(job->png, job->info);
    bool transparent = png_get_valid(job->png, job->info, PNG_INFO_tRNS) != 0;

    if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(job->png);
    if (color_type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(job->png);
    if (transparent) png_set_tRNS_to_alpha(job->png);
    png_set_strip_16(job->png);
    if ((color_type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(job->png);
    return transparent || (color_type & PNG_COLOR_MASK_ALPHA) != 0 ? 4 : 3;
}

static void read_exif(png_job *job)
{
#ifdef PNG_eXIf_SUPPORTED
    png_uint_32 size = 0;
    uint8_t *exif = NULL;
    if (png_get_eXIf_1(job->png, job->info, &size, &exif) != 0) job->orientation = esi_exif_orientation(exif, size);
#endif
}

static void read_all(png_job *job)
{
    job->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job, on_malloc, on_free);
    if (job->png == NULL) stop(job, ESPALIER_ERR_INTERNAL, "libpng does not start");
    job->info = png_create_info_struct(job->png);
    if (job->info == NULL) stop(job, ESPALIER_ERR_INTERNAL, "libpng does not start");
    png_set_read_fn(job->png, job, on_read);
    png_set_user_limits(job->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);     /* ours are checked below, with a better message */
    choose_chunks(job);
    png_read_info(job->png, job->info);

    uint32_t width = png_get_image_width(job->png, job->info), height = png_get_image_height(job->png, job->info);
    uint32_t channels = choose_transforms(job);
    espalier_status st = esi_image_new_from_file(job->ctx, job->out, width, height, channels, job->name);
    if (st != ESPALIER_OK) stop(job, st, "");
    int n_passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    size_t stride = (size_t)width * channels;
    if (png_get_rowbytes(job->png, job->info) != stride) stop(job, ESPALIER_ERR_INTERNAL, "unexpected row size");

    for (int pass = 0; pass < n_passes; pass++) {
        for (uint32_t y = 0; y < height; y++) {
            png_read_row(job->png, job->out->pixels + y * stride, NULL);
            if ((y & 15) == 0) poll_cancel(job);
        }
    }
    png_read_end(job->png, job->info);
    read_exif(job);
}

/* Size from the header, before libpng allocates rows: IHDR is always the first chunk. */
static espalier_status check_header(espalier_context *ctx, const uint8_t *bytes, size_t len_bytes, const char *name)
{
    if (len_bytes < 33 || memcmp(bytes + 12, "IHDR", 4) != 0) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged PNG: no header", name);
    }
    return esi_image_check_size(ctx, png_get_uint_32(bytes + 16), png_get_uint_32(bytes + 20), name);
}

/* A colour profile is not applied (neither does the reference); say so. Chunks before the pixels only; bytes are still untrusted. */
static void note_profile(espalier_context *ctx, const uint8_t *bytes, size_t len_bytes, const char *name)
{
    for (size_t at = 8; len_bytes - at >= 12;) {
        size_t size = png_get_uint_32(bytes + at);
        if (memcmp(bytes + at + 4, "IDAT", 4) == 0 || size > len_bytes - at - 12) return;
        if (memcmp(bytes + at + 4, "iCCP", 4) == 0) {
            esi_log(ctx, ESPALIER_LOG_INFO, "%s: the colour profile is ignored", name);
            return;
        }
        at += 12 + size;
    }
}

espalier_status esi_png_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                               const char *name)
{
    png_job job = {.ctx = ctx, .name = name, .bytes = bytes, .len_bytes = len_bytes, .out = out, .orientation = 1};

    memset(out, 0, sizeof *out);
    espalier_status st = check_header(ctx, bytes, len_bytes, name);
    if (st != ESPALIER_OK) return st;
    if (!guarded(&job, read_all)) {
        const char *what = job.status == ESPALIER_ERR_INPUT ? "damaged PNG" : "cannot decode the PNG";
        st = esi_fail(ctx, job.status, "%s: %s: %s", name, what, job.message);
        espalier_image_free(out);
    } else {
        note_profile(ctx, bytes, len_bytes, name);
    }
    png_destroy_read_struct(&job.png, &job.info, NULL);
    *orientation = job.orientation;
    return st;
}

/* -------------------------------------------------------------- writing */

static void on_write(png_struct *png, uint8_t *bytes, size_t size)
{
    png_job *job = png_get_io_ptr(png);
    espalier_status st = esi_writer_write(job->writer, bytes, size);
    if (st != ESPALIER_OK) stop(job, st, "");
}

static void on_flush(png_struct *png)
{
    (void)png;         /* the writer flushes when it commits */
}

static int color_type_of(uint32_t channels)
{
    return channels == 1 ? PNG_COLOR_TYPE_GRAY : channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGB_ALPHA;
}

static void write_all(png_job *job)
{
    const espalier_image *in = job->in;
    size_t stride = (size_t)in->width * in->channels;

    job->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job, on_malloc, on_free);
    if (job->png == NULL) stop(job, ESPALIER_ERR_INTERNAL, "libpng does not start");
    job->info = png_create_info_struct(job->png);
    if (job->info == NULL) stop(job, ESPALIER_ERR_INTERNAL, "libpng does not start");
    png_set_write_fn(job->png, job, on_write, on_flush);
    png_set_user_limits(job->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(job->png, job->info, in->width, in->height, 8, color_type_of(in->channels), PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job->png, job->info);
    for (uint32_t y = 0; y < in->height; y++) {
        png_write_row(job->png, in->pixels + y * stride);
        if ((y & 15) == 0) poll_cancel(job);
    }
    png_write_end(job->png, job->info);
}

espalier_status esi_png_save(espalier_context *ctx, const espalier_image *image, const char *path)
{
    png_job job = {.ctx = ctx, .name = path, .in = image};

    espalier_status st = esi_writer_open(ctx, &job.writer, path);
    if (st != ESPALIER_OK) return st;
    if (!guarded(&job, write_all)) st = esi_fail(ctx, job.status, "%s: cannot write the PNG: %s", path, job.message);
    png_destroy_write_struct(&job.png, &job.info);
    if (st != ESPALIER_OK) {
        esi_writer_abort(job.writer);
        return st;
    }
    return esi_writer_commit(job.writer);
}
