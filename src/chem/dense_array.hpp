#pragma once
// A tensor as an array, for loops that want one.

#include <vector>

#include "storage/dry_run.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::chem {

/// All elements, row-major; counted and not there in a dry run.
class DenseArray {
  public:
    explicit DenseArray(const Tensor<double>& x)
        : counted_(8 * x.grid().element_total()), values_(DryRun::current() ? std::vector<double>() : x.to_dense()) {}
    const double* data() const { return values_.data(); }
    const std::vector<double>& values() const { return values_; }

  private:
    DryArray counted_;
    std::vector<double> values_;
};

}  // namespace tessera::chem
