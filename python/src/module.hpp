#pragma once
// One function for each subject, each in a file of its own.

#include <nanobind/nanobind.h>

namespace tessera::python {

void bind_errors(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
/// Before tensors, whose placement they are.
void bind_ranks(nanobind::module_& module);
void bind_tensors(nanobind::module_& module);
void bind_blocks(nanobind::module_& module);
void bind_devices(nanobind::module_& module);
void bind_contractions(nanobind::module_& module);
/// After contractions, whose settings they take.
void bind_matrices(nanobind::module_& module);
/// Where Tessera::io was built.
void bind_files(nanobind::module_& module);
/// Where Tessera::chem was built.
void bind_energies(nanobind::module_& module);
void bind_coupled_cluster(nanobind::module_& module);

}  // namespace tessera::python
