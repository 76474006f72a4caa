/* mlx-c has half types for aarch64 alone, through headers that only that compiler reads; mlx-rs needs them everywhere. */
#define MLX_HALF_H
#define HAS_FLOAT16
#define HAS_BFLOAT16
#include <stdint.h>
typedef _Float16 float16_t;
typedef uint16_t bfloat16_t;
