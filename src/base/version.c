/* SPDX-License-Identifier: MIT */
#include <espalier/base.h>

const char *espalier_version(void)
{
    return ESPALIER_VERSION_STRING;
}

const char *espalier_status_name(espalier_status status)
{
    switch (status) {
    case ESPALIER_OK: return "ok";
    case ESPALIER_ERR_ARG: return "usage error";
    case ESPALIER_ERR_INPUT: return "input error";
    case ESPALIER_ERR_MODEL: return "model error";
    case ESPALIER_ERR_RESOURCE: return "resource error";
    case ESPALIER_ERR_INTERNAL: return "internal error";
    case ESPALIER_ERR_OUTPUT: return "output error";
    case ESPALIER_ERR_DEVICE: return "device error";
    case ESPALIER_ERR_SOUNDNESS: return "soundness error";
    case ESPALIER_ERR_CANCELLED: return "cancelled";
    }
    return "unknown status";
}
