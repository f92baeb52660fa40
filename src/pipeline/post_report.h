/* SPDX-License-Identifier: MIT
 *
 * post_report.h: numbers of the mesh layer as JSON, for the report of a run and for inspecting files. docs/report.schema.json describes
 * them.
 */
#ifndef ESI_POST_REPORT_H
#define ESI_POST_REPORT_H

#include "formats/json_write.h"
#include "mesh/compare.h"
#include "pipeline/post.h"

void esi_put_mesh_metrics(esi_json_writer *w, const char *key, const esi_mesh_metrics *m);
void esi_put_uv_metrics(esi_json_writer *w, const char *key, const esi_uv_metrics *u);
/* Members of the object that is open. */
void esi_put_mesh_distance(esi_json_writer *w, const esi_mesh_distance *d);
void esi_put_post(esi_json_writer *w, const char *key, const esi_post_record *r);
/* Soundness and contents of a mesh, as members of the object that is open. */
espalier_status esi_describe_mesh(esi_json_writer *w, const espalier_mesh *mesh, bool self_intersections);

#endif
