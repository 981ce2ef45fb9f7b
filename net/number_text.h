/* Numbers as text that no locale can change.  Pure; any thread. */
#ifndef DFS_NET_NUMBER_TEXT_H
#define DFS_NET_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define NUMBER_TEXT_MAX 32

/* Decimal digits and a closing zero; returns the length. */
size_t number_text_u64(uint64_t v, char out[NUMBER_TEXT_MAX]);
size_t number_text_i64(int64_t v, char out[NUMBER_TEXT_MAX]);

/* The shortest of %.15g, %.16g, %.17g that reads back as the same number ("0.1", "1e+21"); "NaN", "+Inf", "-Inf". */
size_t number_text_double(double v, char out[NUMBER_TEXT_MAX]);

#endif
