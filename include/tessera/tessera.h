/* Tessera from C: block-sparse tensors over MPI ranks, assembled, contracted, planned, kept in files. docs/C.md is the
 * guide.
 *
 * Every function returns 0 or an error code; tessera_message() then says in a line what is wrong, with its values. A
 * function that fails changes nothing and sets no result. Functions that say "collective" are called by every rank of
 * the tensor's communicator, in the same order and with the same arguments. Elements are row-major: last index fastest.
 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_C_API __attribute__((visibility("default")))

enum {
    TESSERA_SUCCESS = 0,
    TESSERA_WRONG_INPUT = 2,    /* nothing was done */
    TESSERA_MACHINE_CANNOT = 3, /* memory, a device, a disk */
    TESSERA_NOT_CONVERGED = 4,
    TESSERA_BUG = 70 /* of the library */
};

/* What this thread's last failure was: a line that is good until its next failure. */
TESSERA_C_API const char* tessera_message(void);
/* Where that was a memory budget: the bytes that would have done, else 0. */
TESSERA_C_API int64_t tessera_smallest_memory(void);
/* "0.2.0" */
TESSERA_C_API const char* tessera_version(void);

/* Handles. Destroying 0 (NULL) does nothing. */
typedef struct tessera_comm_object* tessera_comm;
typedef struct tessera_tensor_object* tessera_tensor;
typedef struct tessera_builder_object* tessera_builder;
typedef struct tessera_plan_object* tessera_plan;
typedef struct tessera_batch_object* tessera_batch;

/* -- ranks. A communicator must outlive what is made on it. NULL is this process alone. */

/* From MPI_Comm_c2f, or what Fortran has; a duplicate is used. Collective. MPI_Init_thread with MPI_THREAD_FUNNELED or
 * more. */
TESSERA_C_API int tessera_comm_from_mpi(int fortran_handle, tessera_comm* comm);
/* The ranks that mpirun started; MPI is initialised where it is not, and finalised at exit. */
TESSERA_C_API int tessera_comm_world(tessera_comm* comm);
TESSERA_C_API int tessera_comm_rank(tessera_comm comm, int* rank);
TESSERA_C_API int tessera_comm_size(tessera_comm comm, int* size);
TESSERA_C_API int tessera_comm_destroy(tessera_comm comm);

/* -- tensors */

enum { TESSERA_FLOAT32 = 0, TESSERA_FLOAT64 = 1, TESSERA_COMPLEX64 = 2, TESSERA_COMPLEX128 = 3 };

/* The tiles of a tensor: along index d, tiles[d] tiles of sizes[d][0], sizes[d][1], ... elements. Rank 16 at most. */
typedef struct tessera_grid {
    int rank;
    const int64_t* tiles;
    const int64_t* const* sizes;
} tessera_grid;

/* Where tiles are: tile t of index d is on coordinate maps[d][t] of a grid of sides[d] ranks along index d, whose last
 * coordinate counts fastest. maps NULL: dealt evenly. sides NULL: one more than each index's largest coordinate. */
typedef struct tessera_placement {
    tessera_comm comm;
    const int32_t* const* maps;
    const int32_t* sides;
} tessera_placement;

/* A tensor without tiles: zero. placement may be NULL: this process alone. */
TESSERA_C_API int tessera_create(int type, const tessera_grid* grid, const tessera_placement* placement,
                                 tessera_tensor* tensor);
/* Random numbers in (-1, 1) in each of n tiles, whose coordinates follow one another: the same for a seed everywhere.
 */
TESSERA_C_API int tessera_create_random(int type, const tessera_grid* grid, const tessera_placement* placement,
                                        int64_t n, const int64_t* coordinates, uint64_t seed, tessera_tensor* tensor);
/* Tiles of a row-major array that all ranks have; those whose norm is at most drop are not stored. */
TESSERA_C_API int tessera_from_dense(int type, const tessera_grid* grid, const tessera_placement* placement,
                                     const void* elements, double drop, tessera_tensor* tensor);
/* All elements, row-major, on every rank. Collective. */
TESSERA_C_API int tessera_to_dense(tessera_tensor tensor, void* elements);
TESSERA_C_API int tessera_copy(tessera_tensor tensor, tessera_tensor* copy);
TESSERA_C_API int tessera_destroy(tessera_tensor tensor);

TESSERA_C_API int tessera_type(tessera_tensor tensor, int* type);
TESSERA_C_API int tessera_rank(tessera_tensor tensor, int* rank);
TESSERA_C_API int tessera_tiles_along(tessera_tensor tensor, int index, int64_t* tiles);
/* As many as tessera_tiles_along says. */
TESSERA_C_API int tessera_tile_sizes(tessera_tensor tensor, int index, int64_t* sizes);
/* Nonzero tiles, and the elements in them, on all ranks together. */
TESSERA_C_API int tessera_tile_count(tessera_tensor tensor, int64_t* tiles);
TESSERA_C_API int tessera_element_count(tessera_tensor tensor, int64_t* elements);
/* Which rank has, or would have, a tile. */
TESSERA_C_API int tessera_owner(tessera_tensor tensor, const int64_t* coordinates, int* rank);

/* Nonzero tile `slot`, 0 to tile_count - 1 in ascending order on all ranks: its coordinates, extents, Frobenius norm
 * and elements, which are NULL where another rank has them and good until the tensor changes. Any result may be NULL.
 */
TESSERA_C_API int tessera_tile(tessera_tensor tensor, int64_t slot, int64_t* coordinates, int64_t* extents,
                               double* norm, const void** elements);
/* The slot of a tile, -1 where it is zero. */
TESSERA_C_API int tessera_find_tile(tessera_tensor tensor, const int64_t* coordinates, int64_t* slot);
/* Calls visit for each of this rank's tiles, on several threads at once (0: all). */
typedef void (*tessera_visit)(void* context, const int64_t* coordinates, const int64_t* extents, const void* elements);
TESSERA_C_API int tessera_for_each_tile(tessera_tensor tensor, tessera_visit visit, void* context, int threads);
/* The same with elements that may be changed. Collective. */
typedef void (*tessera_change)(void* context, const int64_t* coordinates, const int64_t* extents, void* elements);
TESSERA_C_API int tessera_update_tiles(tessera_tensor tensor, tessera_change change, void* context, int threads);

/* -- assembling, block by block, on any rank and any thread. A block is a whole tile. */

/* memory: bytes of all blocks together, 0: no limit. */
TESSERA_C_API int tessera_builder_create(int type, const tessera_grid* grid, const tessera_placement* placement,
                                         int64_t memory, tessera_builder* builder);
/* Of the tensor's type, tiles and placement. */
TESSERA_C_API int tessera_builder_create_like(tessera_tensor tensor, int64_t memory, tessera_builder* builder);
TESSERA_C_API int tessera_builder_destroy(tessera_builder builder);
/* Stored even where nothing is added. */
TESSERA_C_API int tessera_reserve(tessera_builder builder, const int64_t* coordinates);
/* Added to the tile, any rank's. */
TESSERA_C_API int tessera_add(tessera_builder builder, const int64_t* coordinates, const void* block);
/* Blocks of a tile are summed by ascending key: the bits depend on neither ranks nor threads. */
TESSERA_C_API int tessera_add_keyed(tessera_builder builder, const int64_t* coordinates, const void* block,
                                    int64_t key);
/* The tile will be this; an add, or a second put of other elements, is refused. */
TESSERA_C_API int tessera_put(tessera_builder builder, const int64_t* coordinates, const void* block);
/* Sends the blocks home and sums them. Collective. The builder is empty then. */
TESSERA_C_API int tessera_finalize(tessera_builder builder, int threads, tessera_tensor* tensor);
/* The same into a tensor of these tiles: its tiles stay, those that are added to are summed, those that are put, by the
 * rank that has them, are replaced. Collective. */
TESSERA_C_API int tessera_finalize_into(tessera_builder builder, int threads, tessera_tensor tensor);

/* -- contracting. Specs are NumPy's einsum: "ijP,Pkl->ijkl". */

/* Elements lo, lo + 1, ... hi - 1 of the index with this label. */
typedef struct tessera_bounds {
    char label;
    int64_t lo, hi;
} tessera_bounds;

/* Numbers are complex, real part first; real tensors take real ones. */
typedef struct tessera_options {
    double alpha[2], beta[2]; /* of C = alpha A B + beta C */
    int conjugate_a, conjugate_b;
    double filter; /* result tiles below this norm are dropped, products that cannot matter are skipped */
    int n_bounds;
    const tessera_bounds* bounds;
    int threads;    /* 0: all */
    int64_t memory; /* bytes of a rank, 0: what there is */
    int n_devices;
    const int* devices; /* GPUs of each rank, by number */
    int64_t device_memory;
    int retain_sparsity; /* of a batch: C gets no new tiles */
} tessera_options;
/* alpha 1, everything else 0. NULL in place of options means these. */
TESSERA_C_API void tessera_options_init(tessera_options* options);

typedef struct tessera_report {
    double left_out; /* the filter left out no more than this, in Frobenius norm */
    double flops, plan_seconds, execute_seconds;
    int64_t products, dropped_tiles, sent_bytes, peak_host_bytes;
    int threads, ranks;
} tessera_report;

/* Reports may be NULL. All of these are collective. */
TESSERA_C_API int tessera_contract(const char* spec, tessera_tensor a, tessera_tensor b, const tessera_options* options,
                                   tessera_tensor* c, tessera_report* report);
/* c = alpha a b + beta c */
TESSERA_C_API int tessera_contract_into(const char* spec, tessera_tensor a, tessera_tensor b, tessera_tensor c,
                                        const tessera_options* options, tessera_report* report);
/* One operand or many, in the cheapest order. */
TESSERA_C_API int tessera_einsum(const char* spec, int n, const tessera_tensor* operands,
                                 const tessera_options* options, tessera_tensor* c, tessera_report* report);

/* What would be done; nothing is computed. */
TESSERA_C_API int tessera_plan_create(const char* spec, tessera_tensor a, tessera_tensor b,
                                      const tessera_options* options, tessera_plan* plan);
/* For a person, or as one JSON object. Good while the plan is. */
TESSERA_C_API int tessera_plan_explain(tessera_plan plan, const char** text);
TESSERA_C_API int tessera_plan_explain_json(tessera_plan plan, const char** text);
/* For operands with the tiles that it was planned for. */
TESSERA_C_API int tessera_plan_execute(tessera_plan plan, tessera_tensor a, tessera_tensor b, tessera_tensor* c,
                                       tessera_report* report);
TESSERA_C_API int tessera_plan_destroy(tessera_plan plan);

/* Many contractions into one C, which is as it was until the batch is finished, and must not be destroyed before it.
 * Of the options, filter and bounds are given with each call instead. */
TESSERA_C_API int tessera_batch_create(const char* spec, tessera_tensor c, const tessera_options* options,
                                       tessera_batch* batch);
TESSERA_C_API int tessera_batch_add(tessera_batch batch, tessera_tensor a, tessera_tensor b, int n_bounds,
                                    const tessera_bounds* bounds);
TESSERA_C_API int tessera_batch_finish(tessera_batch batch, double filter, tessera_report* report);
TESSERA_C_API int tessera_batch_destroy(tessera_batch batch);

/* -- the same tensor elsewhere, in other tiles, in another order. Collective. */

TESSERA_C_API int tessera_redistribute(tessera_tensor x, const int32_t* const* maps, const int32_t* sides,
                                       tessera_tensor* y);
/* Index d of y is index order[d] of x. */
TESSERA_C_API int tessera_permute(tessera_tensor x, const int* order, tessera_tensor* y);
TESSERA_C_API int tessera_retile(tessera_tensor x, const tessera_grid* grid, tessera_tensor* y);
/* Elements lo[d] to hi[d] - 1 of each index. */
TESSERA_C_API int tessera_slice(tessera_tensor x, const int64_t* lo, const int64_t* hi, tessera_tensor* y);
TESSERA_C_API int tessera_assign_slice(tessera_tensor x, const int64_t* lo, const int64_t* hi, tessera_tensor y);

/* -- algebra. Collective, the same bits on any number of ranks. A number is two doubles: real part, imaginary part. */

TESSERA_C_API int tessera_scale(tessera_tensor x, const double factor[2]);
/* y += alpha x */
TESSERA_C_API int tessera_axpy(const double alpha[2], tessera_tensor x, tessera_tensor y);
/* Sum of conj(x) y. */
TESSERA_C_API int tessera_dot(tessera_tensor x, tessera_tensor y, double result[2]);
TESSERA_C_API int tessera_norm(tessera_tensor x, double* norm);
TESSERA_C_API int tessera_max_abs(tessera_tensor x, double* largest);
/* Without the tiles whose norm is below the threshold. */
TESSERA_C_API int tessera_filter(tessera_tensor x, double threshold, tessera_tensor* y);
/* Element times element. */
TESSERA_C_API int tessera_hadamard(tessera_tensor x, tessera_tensor y, tessera_tensor* z);
/* Equal for tensors with the same tiles and bits. */
TESSERA_C_API int tessera_checksum(tessera_tensor x, uint64_t* checksum);

/* Matrices. Arrays of numbers are of the tensor's type. */
TESSERA_C_API int tessera_trace(tessera_tensor a, double result[2]);
/* Of the product a b, which is not made. */
TESSERA_C_API int tessera_trace_product(tessera_tensor a, tessera_tensor b, double result[2]);
TESSERA_C_API int tessera_diagonal(tessera_tensor a, void* values);
TESSERA_C_API int tessera_set_diagonal(tessera_tensor a, const void* values);
TESSERA_C_API int tessera_add_on_diagonal(tessera_tensor a, const double alpha[2]);
TESSERA_C_API int tessera_triangle(tessera_tensor a, int upper, tessera_tensor* part);
TESSERA_C_API int tessera_scale_rows(tessera_tensor a, const void* values);
TESSERA_C_API int tessera_scale_columns(tessera_tensor a, const void* values);
TESSERA_C_API int tessera_gershgorin_norm(tessera_tensor a, double* norm);
TESSERA_C_API int tessera_column_norms(tessera_tensor a, double* norms);

/* -- functions of matrices with the same tiles along rows and columns: iterations of products, filtered as they go,
 * with a bound of the error. Collective. Error 4 where an iteration does not converge; the report is filled in then
 * too. */

typedef struct tessera_matrix_options {
    double filter;      /* tiles below this norm are dropped in each iteration */
    double tolerance;   /* the residual to reach; 0: as far as filter and rounding let it */
    int max_iterations; /* 100 */
    int lanczos;        /* scale by estimates of the extremal eigenvalues, not by Gershgorin's discs */
    int threads;
    int64_t memory;
} tessera_matrix_options;
TESSERA_C_API void tessera_matrix_options_init(tessera_matrix_options* options);

typedef struct tessera_matrix_report {
    double error; /* the result is no further from the exact one, in Frobenius norm */
    double residual, lowest, highest, homo, lumo;
    int iterations;
    int64_t products, plans;
    double flops, seconds;
} tessera_matrix_report;

/* Of a symmetric (hermitian) matrix without eigenvalue 0; of any that has one; of a positive definite one. */
TESSERA_C_API int tessera_sign(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                               tessera_matrix_report* report);
TESSERA_C_API int tessera_inverse(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                                  tessera_matrix_report* report);
TESSERA_C_API int tessera_sqrt_inverse(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                                       tessera_matrix_report* report);
TESSERA_C_API int tessera_exponential(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                                      tessera_matrix_report* report);
/* The density matrix of so many electrons, one a state, of a symmetric f in a basis with overlap s (NULL: the unit). */
TESSERA_C_API int tessera_purify(tessera_tensor f, tessera_tensor s, int64_t electrons,
                                 const tessera_matrix_options* options, tessera_tensor* result,
                                 tessera_matrix_report* report);

/* -- files: HDF5 (docs/FILE_FORMAT.md). Collective. Error 3 where the library was built without HDF5. */

/* In the place of an old file in one step. */
TESSERA_C_API int tessera_write(const char* path, tessera_tensor tensor);
/* Of whatever type the file has, dealt evenly to the ranks of comm. */
TESSERA_C_API int tessera_read(const char* path, tessera_comm comm, tessera_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TESSERA_H */
