/* SPDX-License-Identifier: MIT
 *
 * golden.h: what the code of one kind of golden case sees.
 *
 * A case is a folder with config.json (key "kind") and usually case.safetensors: `w.` weights, `in.` inputs, `out.` expected values, `ref.`
 * information. A kind is one function in kind_<kind>.c, listed in kinds.h: it reads inputs, runs production code, and hands every result to
 * golden_check(), which applies the tolerance of the config. Results that the case does not store are ignored, so a kind checks all it
 * can compute; stored outputs that the kind never checks are failures.
 *
 * Memory handed out by these functions belongs to the case and dies with it.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "base/context.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "tensor/tensor.h"

typedef struct golden_shape {
    int rank;
    int64_t extent[ESI_MAX_RANK];
} golden_shape;
/* GOLDEN_SHAPE(3, height, width) */
#define GOLDEN_SHAPE(...) ((golden_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
int64_t golden_shape_count(golden_shape shape);

typedef enum golden_verdict { GOLDEN_PASS, GOLDEN_FAIL, GOLDEN_SKIP } golden_verdict;

typedef struct golden_result {
    char *output;                 /* "out.x", or what else was looked at */
    double rel_l2, max_abs;       /* NaN where they mean nothing */
    golden_verdict verdict;
    char *detail;                 /* why it failed, NULL otherwise */
} golden_result;

typedef struct golden_case {
    espalier_context *ctx;        /* of this case alone */
    const char *dir;              /* the folder */
    const char *name;             /* its last part */
    const char *kind;
    esi_json *config;

    /* private to the framework */
    esi_weight_file *file, *weights_file, *inputs_file;
    golden_result *results;
    size_t n_results, cap_results;
    struct golden_block *blocks;
    struct golden_tap *taps;
} golden_case;

/* --------------------------------------------------------------- the case */

void *golden_alloc(golden_case *c, size_t count, size_t size);                    /* zeroed, never NULL */
const char *golden_name(golden_case *c, const char *format, ...) ESI_PRINTF(2, 3);
/* Path of config "siblings".<role>, or NULL. `golden_path` joins with the case's folder. */
const char *golden_sibling(golden_case *c, const char *role);
const char *golden_path(golden_case *c, const char *relative);

/* config values by dotted path; the fallback when absent. */
int64_t golden_config_int(const golden_case *c, const char *dotted, int64_t fallback);
double golden_config_double(const golden_case *c, const char *dotted, double fallback);
bool golden_config_bool(const golden_case *c, const char *dotted, bool fallback);
const char *golden_config_string(const golden_case *c, const char *dotted, const char *fallback);

/* {"name": config "name", "args": config <args_key>}: a model's own config. Release with esi_json_free(). */
espalier_status golden_model_config(golden_case *c, esi_json **out, const char *args_key);

/* ------------------------------------------------------------------ tensors
 * Looked up in the case's own file, then `w.` in the sibling `weights`, `in.` in the sibling `inputs`. A missing tensor or another
 * type is ESPALIER_ERR_INPUT. data: dense, aligned. shape may be NULL. */
bool golden_has(const golden_case *c, const char *name);
espalier_status golden_f32(golden_case *c, const char *name, const float **data, golden_shape *shape);     /* F32, F16, BF16 */
espalier_status golden_f64(golden_case *c, const char *name, const double **data, golden_shape *shape);    /* F64 */
espalier_status golden_i32(golden_case *c, const char *name, const int32_t **data, golden_shape *shape);   /* I32, U32 (same bits) */
espalier_status golden_u8(golden_case *c, const char *name, const uint8_t **data, golden_shape *shape);    /* U8 */
/* As a matrix: all extents but the last are rows; a new tensor of the innermost scope. */
espalier_status golden_tensor_f32(golden_case *c, esi_tensor *out, const char *name);

/* The stored names that begin with `prefix` and end with `suffix`, with both removed ("in.", ".coords" -> "hand", "surface"), each once,
 * in byte order: names of sub-cases. Returns the number. */
size_t golden_sub_cases(golden_case *c, const char *prefix, const char *suffix, const char *const **names);

/* A weight file in memory with the tensors whose names begin with `prefix` ("w.", "w.group."), without that prefix, dtypes kept. Names that
 * go on with `exclude` are left out (NULL: none). It goes through the production parser; the receiver owns it. */
espalier_status golden_weight_file(golden_case *c, esi_weight_file **out, const char *prefix, const char *exclude);

/* -------------------------------------------------------------- comparison
 * dtype: ESI_FILE_F32, _F64, _I32, _U32 or _U8; must be of the class (float, integer, byte) of the stored tensor. */
void golden_check(golden_case *c, const char *name, const void *data, esi_file_dtype dtype, golden_shape shape);
/* A [rows, cols] tensor against a stored one of exactly this shape, or of more leading extents of 1. */
espalier_status golden_check_tensor(golden_case *c, const char *name, esi_tensor t);
/* Rows of a dense volume (n = (x*R + y)*R + z) against a stored [1, channels, R, R, R]. */
espalier_status golden_check_volume(golden_case *c, const char *name, esi_tensor t, int64_t R);
/* A mesh whose rows come in any order (as_set): vertices within `tolerance` of stored ones, faces as turned triples of those
 * (match_set.c). */
void golden_check_mesh_set(golden_case *c, const char *vertices_name, const char *faces_name, const float *vertices, int64_t n_vertices,
                           const int32_t *faces, int64_t n_faces, double tolerance);
/* Something that is not a stored tensor (a number of the config). */
void golden_expect(golden_case *c, const char *what, bool ok, const char *format, ...) ESI_PRINTF(4, 5);
void golden_expect_int(golden_case *c, const char *what, int64_t ours, int64_t expected);

/* -------------------------------------------------------------------- taps
 * While recording, every esi_tap() of the case's context is copied. Starting again forgets what was recorded. */
typedef struct golden_tap {
    struct golden_tap *next;
    const char *name;
    int64_t rows, cols;
    const float *data;
} golden_tap;
void golden_taps_start(golden_case *c);
void golden_taps_stop(golden_case *c);
const golden_tap *golden_tap_find(const golden_case *c, const char *name, int nth);      /* NULL if there is none */
/* golden_check every recorded tap against `prefix` + its name ("out.", "out.group."). */
void golden_check_taps(golden_case *c, const char *prefix);

/* --------------------------------------------------- framework, for main.c */

typedef espalier_status (*golden_kind_fn)(golden_case *c);
golden_kind_fn golden_find_kind(const char *kind);                                 /* NULL: not covered */
espalier_status golden_case_open(golden_case *c, espalier_runtime *runtime, const char *dir);
void golden_case_finish(golden_case *c);             /* adds a failure for every stored output without a verdict */
void golden_case_close(golden_case *c);
void golden_add_result(golden_case *c, const char *output, double rel_l2, double max_abs, golden_verdict verdict, const char *detail);
/* compare.c: the tolerance object of the config that applies to `name`, and its test. */
const esi_json *golden_tolerance(const golden_case *c, const char *name);
void golden_compare(golden_case *c, const char *name, const void *ours, esi_file_dtype ours_dtype, const void *theirs,
                    esi_file_dtype theirs_dtype, int64_t count);
/* The keyword `voxel_error` for points in cells, relative to the grid's lower corner; cells [rows][3]. Without that keyword the above. */
void golden_compare_in_cells(golden_case *c, const char *name, const float *ours, const float *theirs, const int32_t *cells, int64_t rows,
                             const double cell_size[3]);

#endif
