/* SPDX-License-Identifier: MIT
 *
 * model.h: insides of espalier_model: every network that the directory has, opened, and the pipeline's settings.
 */
#ifndef ESI_MODEL_H
#define ESI_MODEL_H

#include <espalier/model.h>

#include "models/model_files.h"
#include "models/networks.h"
#include "pipeline/settings.h"

struct espalier_model {
    atomic_int references;
    espalier_context *owner;         /* pays for everything below; used only while opening and closing */
    esi_model_files files;
    esi_settings settings;
    esi_dinov3 *encoder;             /* networks are NULL where the directory has no file */
    esi_flow *ss_flow, *shape_flow[2], *texture_flow[2];      /* [0] 512, [1] 1024 */
    esi_ss_decoder *ss_decoder;
    esi_sparse_decoder *shape_decoder, *texture_decoder;
};

/* Named weights of a role, NULL when absent. */
esi_weights *esi_model_weights(const espalier_model *model, espalier_role role);
/* The flow model of a role, NULL when absent. */
const esi_flow *esi_model_flow(const espalier_model *model, espalier_role role);
/* Copy the error pending in `from` to `to` (several contexts take part in opening a model). */
espalier_status esi_copy_error(espalier_context *to, const espalier_context *from, espalier_status status);

#endif
