/* SPDX-License-Identifier: MIT
 *
 * image_webp.c: WebP in through libwebp: lossy and lossless, with and without alpha. Of an animation the first frame, laid on a transparent
 * canvas. The container (EXIF, profile, frames) is taken apart by libwebpdemux, which refuses files that are cut off.
 */
#include "formats/exif.h"
#include "formats/image_codecs.h"

#include <webp/decode.h>
#include <webp/demux.h>

static int read_orientation(const WebPDemuxer *demuxer)
{
    WebPChunkIterator chunk;
    int orientation = 1;
    if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) orientation = esi_exif_orientation(chunk.chunk.bytes, chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
    return orientation;
}

static const char *status_text(VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "the file is cut off";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "unsupported feature";
    default: return "bad picture data";
    }
}

/* Decode the frame into its place in `out`, which is as large as the canvas. */
static espalier_status decode_frame(espalier_context *ctx, espalier_image *out, const WebPIterator *frame, const char *name)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: unexpected version of libwebp", name);
    VP8StatusCode code = WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
    if (code != VP8_STATUS_OK) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged WebP: %s", name, status_text(code));

    uint64_t x = (uint64_t)frame->x_offset, y = (uint64_t)frame->y_offset;
    uint64_t width = (uint64_t)config.input.width, height = (uint64_t)config.input.height;
    if (frame->x_offset < 0 || frame->y_offset < 0 || x + width > out->width || y + height > out->height) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged WebP: a frame outside the picture", name);
    }
    size_t stride = (size_t)out->width * out->channels;
    size_t offset = (size_t)y * stride + (size_t)x * out->channels;
    config.output.colorspace = out->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out->pixels + offset;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = esi_image_size(out) - offset;
    code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    if (code == VP8_STATUS_OUT_OF_MEMORY) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: no memory for the WebP codec", name);
    if (code != VP8_STATUS_OK) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged WebP: %s", name, status_text(code));
    return ESPALIER_OK;
}

espalier_status esi_webp_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                                const char *name)
{
    espalier_status st;
    WebPIterator frame;
    bool have_frame = false;

    memset(out, 0, sizeof *out);
    *orientation = 1;
    const WebPData data = {bytes, len_bytes};
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (demuxer == NULL) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged WebP: the file is cut off or broken", name);

    uint32_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH), height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    uint32_t flags = WebPDemuxGetI(demuxer, WEBP_FF_FORMAT_FLAGS);
    have_frame = WebPDemuxGetFrame(demuxer, 1, &frame) != 0;
    if (!have_frame || !frame.complete) {
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged WebP: no picture in it", name);
        goto done;
    }
    bool whole = frame.x_offset == 0 && frame.y_offset == 0 && (uint32_t)frame.width == width && (uint32_t)frame.height == height;
    bool alpha = (flags & ALPHA_FLAG) != 0 || frame.has_alpha || !whole;
    st = esi_image_new_from_file(ctx, out, width, height, alpha ? 4 : 3, name);
    if (st != ESPALIER_OK) goto done;
    if (!whole) memset(out->pixels, 0, esi_image_size(out));
    st = decode_frame(ctx, out, &frame, name);
    if (st != ESPALIER_OK) goto done;
    *orientation = read_orientation(demuxer);
    if ((flags & ICCP_FLAG) != 0) esi_log(ctx, ESPALIER_LOG_INFO, "%s: the colour profile is ignored", name);
done:
    if (st != ESPALIER_OK) espalier_image_free(out);
    if (have_frame) WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return st;
}
