#pragma once
// Everything a program needs.

#include "tessera/base/error.hpp"
#include "tessera/chem/energy.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/arrays.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/npy.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/storage/memory.hpp"
#include "tessera/tensor/array.hpp"
#include "tessera/tensor/tensor.hpp"
