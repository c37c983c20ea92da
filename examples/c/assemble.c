/* examples/assemble in C: a matrix of a chain of atoms, assembled from what each charge adds to each pair of near
 * atoms. Alone or on any number of ranks (mpirun -n 4 assemble) it prints the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

enum { atoms = 12, each = 3 }; /* functions of an atom: a tile of the index */

static void check(int error) {
    if (error == TESSERA_SUCCESS) return;
    fprintf(stderr, "assemble: %s\n", tessera_message());
    exit(error);
}

int main(void) {
    tessera_comm ranks;
    int rank, size;
    check(tessera_comm_world(&ranks));
    check(tessera_comm_rank(ranks, &rank));
    check(tessera_comm_size(ranks, &size));

    int64_t sizes[atoms];
    for (int a = 0; a < atoms; ++a) sizes[a] = each;
    const int64_t tiles[] = {atoms, atoms}, *both[] = {sizes, sizes};
    const tessera_grid grid = {2, tiles, both};
    const tessera_placement evenly = {ranks, NULL, NULL};
    tessera_builder builder;
    check(tessera_builder_create(TESSERA_FLOAT64, &grid, &evenly, 0, &builder));

    /* Charges are dealt to the ranks; each adds to blocks of any rank. The key says in which order they are summed. */
    for (int charge = rank; charge < atoms; charge += size)
        for (int64_t a = 0; a < atoms; ++a)
            for (int64_t b = 0; b < atoms; ++b) {
                const int64_t tile[] = {a, b};
                const double distance = fabs(0.5 * (double)(a + b) - charge);
                double block[each * each];
                if (llabs(a - b) > 2) continue; /* far pairs have no block */
                for (int e = 0; e < each * each; ++e) block[e] = -1.0 / (1 + distance + e / each + e % each);
                check(tessera_add_keyed(builder, tile, block, charge));
            }
    tessera_tensor v, part, w;
    check(tessera_finalize(builder, 0, &v)); /* every block goes to the rank of its tile */

    const int64_t lo[] = {0, 0}, hi[] = {9, 9};
    check(tessera_slice(v, lo, hi, &part)); /* the first three atoms */
    const tessera_bounds six = {'k', 0, 18};
    tessera_options options;
    tessera_options_init(&options);
    options.bounds = &six;
    options.n_bounds = 1;
    check(tessera_contract("ik,kj->ij", v, v, &options, &w, NULL)); /* a sum over the first six */

    double left[2], all[2], first, bounded;
    int64_t stored;
    uint64_t bits;
    check(tessera_trace(v, left));
    check(tessera_trace_product(v, v, all));
    check(tessera_norm(part, &first));
    check(tessera_norm(w, &bounded));
    check(tessera_tile_count(v, &stored));
    check(tessera_checksum(w, &bits));
    if (rank == 0)
        printf("%lld of %d tiles, trace %.6f, of the square %.6f, part %.6f, bounded %.6f (%016llx)\n",
               (long long)stored, atoms * atoms, left[0], all[0], first, bounded, (unsigned long long)bits);

    check(tessera_destroy(w));
    check(tessera_destroy(part));
    check(tessera_destroy(v));
    check(tessera_builder_destroy(builder));
    check(tessera_comm_destroy(ranks));
    return 0;
}
