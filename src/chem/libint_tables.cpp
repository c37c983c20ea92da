// Tables that libint2's headers would bring into the file that uses them, which then takes twice as long to compile.
#include <libint2/boys.h>

#define LIBINT2_STATICS_INITIALIZATION
#include <libint2/boys_cheb7.h>

// The table for integrals with an exponential factor is left empty: there are none of them here, and it is 27 MB of
// source.
template <>
double libint2::TennoGmEval<double>::cheb_table[cheb_table_nintervals]
                                               [(cheb_table_mmax + 2) * (interpolation_order + 1) *
                                                (interpolation_order + 1)] = {};
