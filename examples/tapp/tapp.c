/* D(i,j) = sum over k, l of A(i,k,l) B(l,j,k) in double precision, A in column-major order as Fortran has it. */
#include <stdio.h>
#include <stdlib.h>
#include <tapp.h>

enum { I = 3, J = 2, K = 4, L = 5 };

static void check(TAPP_error error) {
    char text[200];
    if (TAPP_check_success(error)) return;
    TAPP_explain_error(error, sizeof text, text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

int main(void) {
    double a[I * K * L], b[L * J * K], d[I * J], expected, alpha = 2, beta = 0;
    const int64_t extents_a[] = {I, K, L}, strides_a[] = {1, I, I * K};
    const int64_t extents_b[] = {L, J, K}, strides_b[] = {J * K, K, 1};
    const int64_t extents_d[] = {I, J}, strides_d[] = {J, 1};
    const int64_t idx_a[] = {'i', 'k', 'l'}, idx_b[] = {'l', 'j', 'k'}, idx_d[] = {'i', 'j'};
    for (int n = 0; n < I * K * L; ++n) a[n] = n % 7 - 3;
    for (int n = 0; n < L * J * K; ++n) b[n] = n % 5 - 2;

    TAPP_handle handle;
    TAPP_executor executor;
    TAPP_tensor_info info_a, info_b, info_d;
    TAPP_tensor_product product;
    TAPP_status status;
    check(TAPP_create_handle(&handle));
    check(TAPP_create_executor(&executor));
    check(TAPP_create_tensor_info(&info_a, TAPP_F64, 3, extents_a, strides_a));
    check(TAPP_create_tensor_info(&info_b, TAPP_F64, 3, extents_b, strides_b));
    check(TAPP_create_tensor_info(&info_d, TAPP_F64, 2, extents_d, strides_d));
    check(TAPP_create_tensor_product(&product, handle, TAPP_IDENTITY, info_a, idx_a, TAPP_IDENTITY, info_b, idx_b,
                                     TAPP_IDENTITY, info_d, idx_d, TAPP_IDENTITY, info_d, idx_d, TAPP_DEFAULT_PREC));
    check(TAPP_execute_product(product, executor, &status, &alpha, a, b, &beta, TAPP_IN_PLACE, d));

    expected = 0;
    for (int k = 0; k < K; ++k)
        for (int l = 0; l < L; ++l) expected += alpha * a[1 + k * I + l * I * K] * b[l * J * K + 1 * K + k];
    void* flops;
    check(TAPP_attr_get(status, TAPP_TESSERA_FLOPS, &flops));
    printf("D(1,1) = %g, expected %g, %g flops\n", d[1 * J + 1], expected, *(double*)flops);

    check(TAPP_destroy_status(status));
    check(TAPP_destroy_tensor_product(product));
    check(TAPP_destroy_tensor_info(info_d));
    check(TAPP_destroy_tensor_info(info_b));
    check(TAPP_destroy_tensor_info(info_a));
    check(TAPP_destroy_executor(executor));
    check(TAPP_destroy_handle(handle));
    return d[1 * J + 1] == expected ? 0 : 1;
}
