#pragma once
// A problem of `tessera run` with its operands made, to be contracted again and again.

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::bench {

class ProblemRun {
  public:
    explicit ProblemRun(const std::string& name, int threads = 0)
        : problem_(make_problem(name)),
          a_(Tensor<double>::generate(problem_.a, problem_.make_a, threads)),
          made_{problem_.b, problem_.make_b, {}} {
        if (!problem_.b_on_demand)
            b_ = std::make_unique<Tensor<double>>(Tensor<double>::generate(problem_.b, problem_.make_b, threads));
    }
    const std::string& name() const { return problem_.name; }
    /// GFLOP/s of one contraction, planned anew. The result's memory is kept for the next one.
    double rate(int threads) const {
        ContractOptions what;
        if (problem_.c) what.result_shape = &*problem_.c;
        const ContractOperand<double> b = b_ ? ContractOperand<double>(*b_) : ContractOperand<double>(made_);
        const double start = now_seconds();
        const auto planned = plan<double>(problem_.spec, a_, b, {.threads = threads}, what);
        const auto ran = execute<double>(planned, a_, b);
        return 1e-9 * ran.report.flops / (now_seconds() - start);
    }

  private:
    Problem problem_;
    Tensor<double> a_;
    std::unique_ptr<Tensor<double>> b_;
    GeneratedTensor<double> made_;
};

}  // namespace tessera::bench
