/* SPDX-License-Identifier: MIT
 *
 * post_job.h: what the steps of finishing an asset share.
 */
#ifndef ESI_POST_JOB_H
#define ESI_POST_JOB_H

#include "pipeline/post.h"
#include "pipeline/report.h"
#include "pipeline/results.h"

typedef struct post_job {
    espalier_context *ctx;
    const espalier_asset *asset;
    const esi_asset *data;
    espalier_post_options options;       /* resolved */
    esi_post_record *record;
    bool measure;                        /* somebody wants the numbers of every step */
    int32_t *voxel_of;                   /* of each vertex of the raw mesh; NULL where vertices are not the voxels' own */
    esi_mesh original;                   /* cleaned, before remeshing: what projection and colours refer to */
    esi_mesh mesh;                       /* being finished */
    esi_bvh *bvh;                        /* over `original` */
    esi_volume volume;
    bool has_volume;
    float *normals;                      /* of `mesh` */
    esi_unwrapped unwrapped;
    esi_surface surface;
} post_job;

/* The raw mesh into `mesh` (post_raw.c). */
espalier_status esi_post_take_raw(post_job *j);
/* No vertex of `mesh` is beyond all use. */
espalier_status esi_post_check_reach(const post_job *j);
/* `mesh`, turned outward, as the surface: with a colour per vertex where the volume is open. */
espalier_status esi_post_raw_surface(post_job *j);
/* One plain matte material, unless there is one. */
espalier_status esi_post_one_material(post_job *j);

/* Does the asset have what repairing takes, and is it wanted (post_repair.c)? */
bool esi_post_can_repair(const post_job *j);
/* `mesh` anew from a dual grid with its knife-edge decisions mended. */
espalier_status esi_post_repair(post_job *j);

#endif
