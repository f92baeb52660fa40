/* SPDX-License-Identifier: MIT
 *
 * espalier/espalier.h: everything.
 */
#ifndef ESPALIER_H
#define ESPALIER_H

#include <espalier/base.h>
#include <espalier/context.h>
#include <espalier/image.h>
#include <espalier/inspect.h>
#include <espalier/model.h>
#include <espalier/pipeline.h>

#endif
