/* SPDX-License-Identifier: MIT
 *
 * affine.h: transformations of imported scenes: the rows of the upper 3x4 of a matrix, for column vectors.
 */
#ifndef ESI_AFFINE_H
#define ESI_AFFINE_H

#define ESI_AFFINE_IDENTITY {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}

/* a after b: points go through b first. */
static inline void esi_affine_multiply(double out[12], const double a[12], const double b[12])
{
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 4; c++)
            out[4 * r + c] = a[4 * r] * b[c] + a[4 * r + 1] * b[4 + c] + a[4 * r + 2] * b[8 + c] + (c == 3 ? a[4 * r + 3] : 0.0);
    }
}

/* Rows of the cofactor matrix, by which normals turn; returns the determinant, negative where the matrix mirrors. */
static inline double esi_affine_cofactors(double out[9], const double m[12])
{
    for (int r = 0; r < 3; r++) {
        const double *a = m + 4 * ((r + 1) % 3), *b = m + 4 * ((r + 2) % 3);

        for (int c = 0; c < 3; c++) out[3 * r + c] = a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3];
    }
    return m[0] * out[0] + m[1] * out[1] + m[2] * out[2];
}

#endif
