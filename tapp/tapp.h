/* Tensor Algebra Processing Primitives: D = op(alpha op(A) op(B) + beta op(C)) of dense strided tensors.
 *
 * The C interface of TAPP 0.5.0 (arXiv 2601.07827; names and values of TAPPorg/reference-implementation at commit
 * 408bcaba4adb0a9fd1c292cf7dbe7d31bdb9b8d1), on Tessera's contraction of arrays where they lie. docs/C.md says what the
 * interface leaves to an implementation. */
#ifndef TESSERA_TAPP_H
#define TESSERA_TAPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAPP_EXPORT __attribute__((visibility("default")))

/* -- errors: 0 is success; the others are listed at the end of this file */

typedef int TAPP_error;

TAPP_EXPORT bool TAPP_check_success(TAPP_error error);
/* Writes at most maxlen - 1 characters and a null, and returns how many characters; with maxlen 0 it returns the length
 * of the whole text. Where this thread's last failure has this code, the text names its values. */
TAPP_EXPORT size_t TAPP_explain_error(TAPP_error error, size_t maxlen, char* message);

/* -- types of stored elements, and of the arithmetic */

typedef int TAPP_datatype;
enum {
    TAPP_F32 = 0,
    TAPP_F64 = 1,
    TAPP_C32 = 2, /* complex of two F32 */
    TAPP_C64 = 3, /* complex of two F64 */
    TAPP_F16 = 4,
    TAPP_BF16 = 5,
    TAPP_FLOAT = TAPP_F32,
    TAPP_DOUBLE = TAPP_F64,
    TAPP_SCOMPLEX = TAPP_C32,
    TAPP_DCOMPLEX = TAPP_C64
};

typedef int TAPP_prectype;
enum {
    TAPP_DEFAULT_PREC = -1, /* the widest of the operands; F16 and BF16 are computed in F32 */
    TAPP_F32F32_ACCUM_F32 = TAPP_F32,
    TAPP_F64F64_ACCUM_F64 = TAPP_F64,
    TAPP_F16F16_ACCUM_F16 = TAPP_F16,
    TAPP_F16F16_ACCUM_F32 = 5,
    TAPP_BF16BF16_ACCUM_F32 = 6
};

typedef int TAPP_element_op;
enum { TAPP_IDENTITY = 0, TAPP_CONJUGATE = 1 };

/* -- attributes of a handle, an executor or a status: the object itself is its TAPP_attr */

typedef intptr_t TAPP_attr;
typedef int TAPP_key;
enum {
    TAPP_TESSERA_THREADS = 0x1000, /* int, of an executor: threads; 0: all (what clear gives) */
    TAPP_TESSERA_MEMORY = 0x1001,  /* int64_t, of an executor: bytes of work space at most; 0: no limit */
    TAPP_TESSERA_FLOPS = 0x1002,   /* double, of a status: what was computed; it is read only */
    TAPP_TESSERA_SECONDS = 0x1003  /* double, of a status: how long it took; it is read only */
};

/* The value is copied from what the pointer points at. */
TAPP_EXPORT TAPP_error TAPP_attr_set(TAPP_attr attr, TAPP_key key, void* value);
/* The pointer points into the object, and is good while that lives. */
TAPP_EXPORT TAPP_error TAPP_attr_get(TAPP_attr attr, TAPP_key key, void** value);
TAPP_EXPORT TAPP_error TAPP_attr_clear(TAPP_attr attr, TAPP_key key);

/* -- the library, and where it works */

typedef intptr_t TAPP_handle;
TAPP_EXPORT TAPP_error TAPP_create_handle(TAPP_handle* handle);
TAPP_EXPORT TAPP_error TAPP_destroy_handle(TAPP_handle handle);

typedef intptr_t TAPP_executor;
TAPP_EXPORT TAPP_error TAPP_create_executor(TAPP_executor* exec);
TAPP_EXPORT TAPP_error TAPP_destroy_executor(TAPP_executor exec);

/* Made by the execution where asked for (not NULL), 0 where the execution was refused. */
typedef intptr_t TAPP_status;
TAPP_EXPORT TAPP_error TAPP_destroy_status(TAPP_status status);

/* -- tensors: strides in elements, of any sign; 0 repeats an element (not in D). At most 16 modes. */

typedef intptr_t TAPP_tensor_info;
TAPP_EXPORT TAPP_error TAPP_create_tensor_info(TAPP_tensor_info* info, TAPP_datatype type, int nmode,
                                               const int64_t* extents, const int64_t* strides);
TAPP_EXPORT TAPP_error TAPP_destroy_tensor_info(TAPP_tensor_info info);
TAPP_EXPORT int TAPP_get_nmodes(TAPP_tensor_info info);
/* New modes have extent 1 and stride 0. */
TAPP_EXPORT TAPP_error TAPP_set_nmodes(TAPP_tensor_info info, int nmodes);
TAPP_EXPORT void TAPP_get_extents(TAPP_tensor_info info, int64_t* extents);
TAPP_EXPORT TAPP_error TAPP_set_extents(TAPP_tensor_info info, const int64_t* extents);
TAPP_EXPORT void TAPP_get_strides(TAPP_tensor_info info, int64_t* strides);
TAPP_EXPORT TAPP_error TAPP_set_strides(TAPP_tensor_info info, const int64_t* strides);

/* -- products */

#define TAPP_IN_PLACE NULL /* as C: what D holds */

typedef intptr_t TAPP_tensor_product;
/* Indices are any numbers. One that stands in A or B alone, and not in D, is summed; one that is repeated in a tensor
 * walks its diagonal. The infos may be destroyed or changed afterwards. What is refused here is said here; the product
 * exists all the same, executing it says it again, and it is to be destroyed. The handle is not looked at: all of this
 * library's are alike. */
TAPP_EXPORT TAPP_error TAPP_create_tensor_product(TAPP_tensor_product* plan, TAPP_handle handle, TAPP_element_op op_A,
                                                  TAPP_tensor_info A, const int64_t* idx_A, TAPP_element_op op_B,
                                                  TAPP_tensor_info B, const int64_t* idx_B, TAPP_element_op op_C,
                                                  TAPP_tensor_info C, const int64_t* idx_C, TAPP_element_op op_D,
                                                  TAPP_tensor_info D, const int64_t* idx_D, TAPP_prectype prec);
TAPP_EXPORT TAPP_error TAPP_destroy_tensor_product(TAPP_tensor_product plan);

/* alpha and beta are of D's type. C may be D, or TAPP_IN_PLACE where D's strides are C's, and is not looked at where
 * beta is 0. exec may be 0, status NULL. Several threads may execute one product at once. */
TAPP_EXPORT TAPP_error TAPP_execute_product(TAPP_tensor_product plan, TAPP_executor exec, TAPP_status* status,
                                            const void* alpha, const void* A, const void* B, const void* beta,
                                            const void* C, void* D);
/* The same of num_batches sets of tensors, with the bits of as many single ones; small ones run side by side. C as a
 * whole may be TAPP_IN_PLACE too. Their D must not overlap. */
TAPP_EXPORT TAPP_error TAPP_execute_batched_product(TAPP_tensor_product plan, TAPP_executor exec, TAPP_status* status,
                                                    int num_batches, const void* alpha, const void** A, const void** B,
                                                    const void* beta, const void** C, void** D);

/* -- errors of this implementation; 1 to 12 are those of the reference */

enum {
    TAPP_TESSERA_EXTENTS_A_B = 1,
    TAPP_TESSERA_EXTENTS_A_D = 2,
    TAPP_TESSERA_EXTENTS_B_D = 3,
    TAPP_TESSERA_INDEX_OF_D_ALONE = 4,
    TAPP_TESSERA_MODES_C_D = 5,
    TAPP_TESSERA_INDICES_C_D = 6,
    TAPP_TESSERA_EXTENTS_C_D = 7,
    TAPP_TESSERA_D_OVERLAPS_ITSELF = 8,
    TAPP_TESSERA_EXTENTS_A = 9,
    TAPP_TESSERA_EXTENTS_B = 10,
    TAPP_TESSERA_EXTENTS_D = 11,
    TAPP_TESSERA_C_IS_MISSING = 12,
    TAPP_TESSERA_MODES = 13,    /* negative, or more than 16 */
    TAPP_TESSERA_EXTENT = 14,   /* negative */
    TAPP_TESSERA_TYPE = 15,     /* unknown, or complex into real */
    TAPP_TESSERA_ARGUMENT = 16, /* a null pointer, an object of another kind, an unknown operation, key or value */
    TAPP_TESSERA_INPUT = 17,    /* operands that share memory with D, a result with NaN or infinity */
    TAPP_TESSERA_MACHINE = 18,  /* no memory */
    TAPP_TESSERA_INTERNAL = 19  /* a bug of the library */
};

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TAPP_H */
