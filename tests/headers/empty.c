/* SPDX-License-Identifier: MIT
 *
 * empty.c: a shared library needs one source of its own.
 */
extern int espalier_shared_form_is_not_empty;
