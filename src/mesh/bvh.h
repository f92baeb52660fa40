/* SPDX-License-Identifier: MIT
 *
 * bvh.h: a bounding volume hierarchy over the triangles of a mesh: closest point (Ericson, Real-Time Collision Detection, 5.1.5), rays,
 * and boxes. Built in parallel, the same tree for any thread count; queries are read-only and may run on any number of threads.
 */
#ifndef ESI_MESH_BVH_H
#define ESI_MESH_BVH_H

#include "base/surface.h"

typedef struct esi_bvh esi_bvh;

/* The mesh's arrays must outlive the tree. ERR_INTERNAL without faces. Zero-area faces act as segments or points. */
espalier_status esi_bvh_build(espalier_context *ctx, esi_bvh **out, const esi_mesh *mesh);
void esi_bvh_free(espalier_context *ctx, esi_bvh *bvh);             /* NULL is fine */

typedef struct esi_bvh_hit {
    int32_t face;
    float distance2;               /* squared, rounded to float from double; ties between faces go to the lowest number */
    float bary[3];                 /* of the face's corners, sum 1 */
    float point[3];                /* sum of bary[k] * corner[k] */
} esi_bvh_hit;

/* Nearest point of the surface not farther than max_distance (INFINITY = any). False if there is none. */
bool esi_bvh_closest(const esi_bvh *bvh, const float p[3], float max_distance, esi_bvh_hit *hit);
/* The same among faces whose unit normal n has dot(n, facing) >= min_dot (zero-area faces never). */
bool esi_bvh_closest_facing(const esi_bvh *bvh, const float p[3], const float facing[3], float min_dot, float max_distance,
                            esi_bvh_hit *hit);
/* Distance only, INFINITY when farther than max_distance. `hint`: in, a distance from p to some point of the surface that is known to the
 * caller, or INFINITY. Remeshing asks many nearby points and uses bvh_internal.h's form of it; tests compare that with this one. */
float esi_bvh_distance(const esi_bvh *bvh, const float p[3], float max_distance, float hint);

/* Does the open segment origin + t * direction, t in (t_min, t_max), meet a face? Double precision inside; hits on a shared edge may count
 * for either face. */
bool esi_bvh_ray_any(const esi_bvh *bvh, const float origin[3], const float direction[3], float t_min, float t_max);
/* Number of faces that the ray meets: + those it leaves through (n . direction > 0), - those it enters through; *all may be NULL. */
int64_t esi_bvh_ray_crossings(const esi_bvh *bvh, const float origin[3], const float direction[3], int64_t *all);

/* Calls fn for every face whose box overlaps the box, ascending order not promised; stops when fn returns false. */
typedef bool (*esi_bvh_face_fn)(void *arg, int32_t face);
void esi_bvh_overlap(const esi_bvh *bvh, const float min[3], const float max[3], esi_bvh_face_fn fn, void *arg);

/* The queries of a whole array at once, in parallel: distances[i], and hits[i] if not NULL (face -1 = none). */
espalier_status esi_bvh_closest_many(espalier_context *ctx, const esi_bvh *bvh, const float *points, int64_t count, float max_distance,
                                     float *distances, esi_bvh_hit *hits);

#endif
